"""The expectation suites, as code."""

from __future__ import annotations

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.expectations.expectation import Expectation

from quality.invariants import INVARIANTS

PARTITION_HISTORY = "partition_history"
_PRESENT = ("topic_id", "topic", "partition", "offset", "leader", "leader_epoch", "partition_epoch")
_AT_LEAST = {"leader": -1, "leader_epoch": 0, "partition_epoch": 0, "min_isr": 1}


def partition_history_suite() -> gx.ExpectationSuite:
    """The expectations that each row of partition_history must meet, whatever happened to the cluster."""
    expectations: list[Expectation] = [gxe.ExpectColumnValuesToNotBeNull(column=c) for c in _PRESENT]
    expectations += [
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["cluster_id", "topic_id", "partition", "offset"]),
        *(gxe.ExpectColumnValuesToBeBetween(column=c, min_value=least) for c, least in _AT_LEAST.items()),
        gxe.ExpectColumnValuesToBeInSet(column="leader_recovery_state", value_set=["RECOVERED", "RECOVERING"]),
        *(gxe.ExpectColumnValuesToBeInSet(column=name, value_set=[True]) for name in INVARIANTS),
    ]
    return gx.ExpectationSuite(name=PARTITION_HISTORY, expectations=expectations)
