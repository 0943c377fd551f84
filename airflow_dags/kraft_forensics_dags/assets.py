"""The tables as Airflow's assets, so that other DAGs can follow: `schedule=[Asset("kraft_forensics/findings")]`."""

from airflow.sdk import Asset

# One event for each cluster and run, with `cluster` and `lake` as extra.
TABLES = (
    *("partition_history", "broker_history", "config_history", "feature_history", "quorum_history", "cluster_metrics"),
    *("elections", "rule_differences", "invariant_violations", "counterfactuals", "findings", "quality_results"),
)
OF_TABLES = [Asset(f"kraft_forensics/{table}") for table in TABLES]
# One event for each run in which every cluster ended well, with `clusters` as extra.
NIGHT = Asset("kraft_forensics/nightly")
# One event for each whole capture that was collected without a gap, with `cluster` and `capture` as extra.
CAPTURES = Asset("kraft_forensics/captures")
