"""Leaders of which another process registered within their term: what its log had lost is of no election, and so of no
window.

Without ELR a registration changes no partition in 3.9.1 (ReplicationControlManager.handleBrokerUncleanShutdown). From
4.0 on it ends the term (handleBrokerShutdown).
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.asof import Events
from replay.arrow.ragged import INT64_MAX
from replay.arrow.schemas import FINDINGS
from replay.cluster.log import Problem
from replay.controller.transitions import Bucket
from replay.findings.faults import fault

KIND = "leader_registered_again"


def led_on_findings(bucket: Bucket, cluster_id: str) -> pa.Table:
    """schemas.FINDINGS: one for each such registration, with the partitions of the bucket."""
    history, states, brokers = bucket.history, bucket.states, bucket.facts.brokers
    begun = [state for broker in brokers.states for state in brokers.restarts(broker, -1)]
    places = np.array([(s.broker_id, s.offset) for s in begun], dtype=np.int64).reshape(-1, 2)
    end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    rows, which = Events(*places.T).indexes_between(states.leader, history["offset"].to_numpy(), end)
    # A leader that is elected in the batch of its registration (KAFKA-19522) had not led yet.
    new = states.begins | np.append(True, states.leader_epoch[1:] != states.leader_epoch[:-1])[: len(end)]
    batches = np.array([s.batch_base_offset for s in begun], dtype=np.int64)
    had_led = ~new[rows] | (history["batch_base_offset"].to_numpy()[rows] != batches[which])
    led = zip(which[had_led].tolist(), rows[had_led].tolist(), strict=True)
    found = []
    for number, own in groupby(sorted(led), itemgetter(0)):
        (_, first), *more = own
        state = history.slice(first, 1).to_pylist()[0]
        place = f"{state['topic'] or state['topic_id']}-{state['partition']}"
        message = (
            f"Broker {begun[number].broker_id} registered again at metadata offset {begun[number].offset} while it led "
            f"{place}{f' and {len(more)} more' if more else ''}: what its log had lost by then is of no election."
        )
        found.append(fault(cluster_id, Problem(KIND, begun[number].offset, message), f"{state['topic_id']} {place}"))
    return pa.Table.from_pylist(found, schema=FINDINGS)
