"""Arrow schemas of the comparison between rules and recorded state. They hold predictions, never facts."""

from __future__ import annotations

import pyarrow as pa

from replay.arrow.schemas import INT32_LIST, PARTITION, PROVENANCE, column

PREDICTED_STATE = pa.struct(
    [
        pa.field("leader", pa.int32()),
        pa.field("isr", INT32_LIST),
        pa.field("elr", INT32_LIST),
        pa.field("last_known_elr", INT32_LIST),
        pa.field("leader_recovery_state", pa.string()),
    ]
)

RULE_DIFFERENCES = pa.schema(
    [
        column("offset", pa.int64(), "metadata offset of the partition change"),
        column("timestamp_ms", pa.int64(), "timestamp of that record"),
        column("controller_epoch", pa.int32(), "controller epoch that wrote it"),
        *PARTITION,
        column(
            "trigger",
            pa.string(),
            "what made the controller write it, as far as the log shows (docs/rules.md); null = nothing in the log "
            "explains the change",
        ),
        column("trigger_offset", pa.int64(), "metadata offset of the record that shows the trigger"),
        column("profiles", pa.list_(pa.string()), "rule profiles that the active controller may have run"),
        column(
            "difference",
            pa.string(),
            "profiles_disagree (some of the possible profiles predict it, others do not), known_bug (its release did "
            "this; Kafka has fixed it since), unknown_input (an input that the evidence lacks would explain it), "
            "unexplained",
        ),
        column("reason", pa.string(), "the profiles that predict it, the bug's ticket, or the unknown input"),
        column("differs_in", pa.list_(pa.string()), "fields in which recorded and predicted state differ"),
        column("profile", pa.string(), "the profile that gives `predicted`"),
        column("rule_fingerprint", pa.string(), "fingerprint of that profile's rules"),
        column(
            "predicted", PREDICTED_STATE, "the state that the profile predicts; partition_history has the recorded one"
        ),
        *PROVENANCE,
    ]
)
