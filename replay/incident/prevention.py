"""Advice that prevents the next loss: configs, features and releases that the log shows, and partitions that stood one
failure from a loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replay.findings.statements import prose
from replay.incident.advice_piece import (
    EXPOSURE,
    MIN_ISR,
    MOST_PLACES,
    PREVENTION,
    SERVER,
    UNCLEAN,
    WINDOWS,
    Row,
    config_command,
    count,
    groups,
    is_legal,
    piece,
    place,
    sentences_of,
    visible,
)

MOST_LONGEST = 5
_ELR, _METADATA = "eligible.leader.replicas.version", "metadata.version"
_ELR_NEEDS = 23  # metadata.version 4.0-IV1
_FIXED_IN = {"KAFKA-19522": "4.1.0", "KAFKA-19975": "4.3.0"}
_BUGS = "docs/rules.md#differences"


def unsafe_configs(configs: Sequence[Row]) -> Iterator[Row]:
    """configs: CONFIG_HISTORY in force."""
    for name, bad, good, code, why, then in (
        (
            *(MIN_ISR, "1", "2", "raise_min_isr", "one replica alone may acknowledge records"),
            "Prediction: with acks=all, writes then stop while fewer than 2 replicas are in sync.",
        ),
        (
            *(UNCLEAN, "true", "false", "turn_off_unclean", "a replica without the records may be elected"),
            "Prediction: a partition then stays without a leader until a member of its ISR or ELR is back.",
        ),
    ):
        rows = [r for r in configs if r["name"] == name and r["effective_value"] == bad]
        for source, some in groups([r for r in rows if r["resource_type"] == "topic"], lambda r: r["source"]).items():
            topics = sorted({r["resource_name"] for r in some})
            assumed = source == "assumed_default"
            shown = ", ".join(map(visible, topics[:MOST_PLACES]))
            more = f" and {len(topics) - MOST_PLACES} more" if len(topics) > MOST_PLACES else ""
            fact = f"{name} is {bad} for {shown}{more} (config layer: {source})."
            yield piece(
                code,
                PREVENTION,
                f"Set {name}={good} for {count(len(topics), 'topic')} ({shown}{more}): {why}.",
                "last_replica_standing" if name == MIN_ISR else "hwm_regression, H1",
                EXPOSURE if name == MIN_ISR else WINDOWS,
                facts=() if assumed else (fact,),
                assumptions=(fact,) if assumed else (),
                predictions=(then,),
                commands=tuple(config_command(t, f"{name}={good}") for t in topics[:MOST_PLACES] if is_legal(t)),
            )


def elr_off(features: Mapping[str, int]) -> Iterator[Row]:
    """Advice to turn the ELR feature on. features: name -> level; empty if not known."""
    if not features or features.get(_ELR, 0) > 0:
        return
    level = features.get(_METADATA)
    able = level is not None and level >= _ELR_NEEDS
    first = "" if able else f"Upgrade to Kafka 4.0 or later and finalize its {_METADATA}, then turn"
    yield piece(
        "turn_on_elr",
        PREVENTION,
        f"{first or 'Turn'} on eligible leader replicas (KIP-966): the controller then remembers who still has every "
        "acknowledged record when the ISR falls below min ISR. Set min.insync.replicas on topics or as the cluster's "
        "default before: values set on single brokers are removed.",
        "H2",
        WINDOWS,
        facts=(f"{_ELR} is {features.get(_ELR, 0)}, {_METADATA} is {level} when the log ended.",),
        commands=(f"kafka-features.sh {SERVER} upgrade --feature {_ELR}=1",) if able else (),
    )


def known_bugs(mismatches: Sequence[Row]) -> Iterator[Row]:
    """mismatches: findings rule_mismatch with a known bug."""
    for ticket, rows in groups(mismatches, _ticket).items():
        release = _FIXED_IN.get(ticket)
        yield piece(
            "upgrade",
            PREVENTION,
            f"Upgrade the controllers{f' to {release} or later' if release else ''}: their release has {ticket}.",
            "rule_mismatch (known_bug)",
            _BUGS,
            rows,
            facts=sentences_of(rows, ("rule_known_bug",)),
        )


def _ticket(row: Row) -> str:
    return next(
        (s["text"] or "a known bug" for s in row["reason"] or () if s["code"] == "rule_known_bug"), "a known bug"
    )


def longest_exposed(longest: Sequence[Row]) -> Iterator[Row]:
    """longest: findings last_replica_standing, longest first."""
    rows = list(longest[:MOST_LONGEST])
    if rows:
        facts = [f"{place(row)}: {prose(s for s in row['reason'] or () if s['code'] in _LASTED)}" for row in rows]
        yield piece(
            "one_failure_from_loss",
            PREVENTION,
            "Check why these partitions stood one failure from a loss, the longest first: too few replicas, a high "
            "lag, or brokers that were restarted one after another too quickly.",
            "last_replica_standing",
            EXPOSURE,
            rows,
            facts=tuple(facts),
        )


_LASTED = ("last_replica", "exposed_for", "exposed_for_at_least")
