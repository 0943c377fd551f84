"""What brokers log of their replicas: what a log held when it began to lead, to follow or was loaded, its high
watermark, and where it was cut.

docs/broker_logs.md says what each line proves, and where releases differ.
"""

from __future__ import annotations

from evidence.broker_logs.message import message
from evidence.broker_logs.node_messages import FETCHER

_BROKER, _PARTITION, _LOG, _LOADER = ("Broker",), ("Partition",), ("UnifiedLog", "Log", "LocalLog"), ("LogLoader",)

REPLICA_MESSAGES = (
    # What a replica held when it began to lead or to follow: state-change.log.
    message(
        "leader_started",
        r"Leader <tp> with topic id <id> <starts> with partition epoch <partition_epoch>, high watermark "
        r"<high_watermark>, ISR \[<isr>\], adding replicas \[[\d, ]*\] and removing replicas \[[\d, ]*\] "
        r"?<under_min_isr>? ?\. <previous>",
        _BROKER,
        words=" starts at leader epoch ",
    ),
    message(
        "follower_started",
        r"Follower <tp> <starts> with partition epoch <partition_epoch> and high watermark <high_watermark>\. Current "
        r"leader is <leader>\. <previous>",
        _BROKER,
        words=" starts at leader epoch ",
    ),
    message(
        "leader_unchanged",
        r"Skipped the become-leader state change for <tp> with topic id <id><state> since it is already the leader "
        r"with leader epoch <leader_epoch>\. Current high watermark <high_watermark>, ISR \[<isr>\]",
        _BROKER,
    ),
    message(
        "follower_unchanged",
        r"Skipped the become-follower state change for <tp> with topic id <id><state> since it is already a follower "
        r"with leader epoch <leader_epoch>\.",
        _BROKER,
    ),
    message("partition_created", r"Creating new partition <tp> with topic id <id>\.", _BROKER),
    message(
        "partition_offline",
        r"Unable to bring up new local leader <tp> with topic id <id> because it resides in an offline log directory",
        _BROKER,
        words="offline log directory",
    ),
    message(
        "partition_offline",
        r"(?:Skipped the become-leader state change for|Unable to start fetching) <tp> with topic (?:id|ID) <id> due "
        r"to a storage error (?P<detail>.{0,300})",
        _BROKER,
        words="due to a storage error",
    ),
    # The leader's ISR.
    message(
        "isr_shrinking",
        r"Shrinking ISR from <previous_isr> to <isr>\. Leader: \(highWatermark: <high_watermark>, endOffset: "
        r"<log_end_offset>\)\. Out of sync replicas: (?P<out_of_sync>\(.{0,5000})\.",
        _PARTITION,
    ),
    message(
        "isr_updated", r"ISR updated to <isr> ?<under_min_isr>? ?and version updated to <partition_epoch>", _PARTITION
    ),
    message(
        "isr_change_failed",
        r"Failed to alter partition to Pending.{0,5000}?(?:since the controller rejected the request with |since "
        r"|because )(?P<detail>[^.]{1,300})",
        _PARTITION,
    ),
    message(
        "isr_change_failed",
        r"Failed to update ISR to Pending.{0,5000}? due to unexpected (?P<detail>.{1,300}?)\. Retrying",
        _PARTITION,
    ),
    # High watermark and truncation.
    message("log_loaded", r"Log loaded for partition <tp> with initial high watermark <high_watermark>", _PARTITION),
    message("high_watermark_missing", r"No checkpointed highwatermark is found for partition <tp>", _PARTITION),
    message(
        "truncated_below_high_watermark",
        r"Truncating (?:future )?<tp> to offset <truncated_to> below high watermark <high_watermark>",
        FETCHER + _LOG,
        words=" below high watermark ",
    ),
    message("truncated", r"Truncating to offset <truncated_to>", _LOG),
    message(
        "truncation_without_effect",
        r"Truncating to <truncated_to> has no effect as the largest offset in the log is (?P<last_offset>-?\d{1,19})",
        _LOG,
        words=" has no effect as the largest offset",
    ),
    message(
        "truncating_to_own_high_watermark",
        r"Truncating partition <tp> with (?:Offset)?TruncationState\(offset=<truncated_to>, completed=\w+\) due to "
        r"local high watermark <high_watermark>",
        FETCHER,
        words=" due to local high watermark ",
    ),
    message(
        "truncating_to_leaders_epoch",
        r"Truncating partition <tp> with (?:Offset)?TruncationState\(offset=<truncated_to>, completed=\w+\) due to "
        r"leader epoch and offset EpochEndOffset\(.{0,100}?leaderEpoch=<leader_epoch>, endOffset=<leader_end_offset>\)",
        FETCHER,
        words=" due to leader epoch and offset ",
    ),
    message(
        "fetch_offset_reset",
        r"(?:Truncate fully and reset|Reset) fetch offset for partition <tp> from <log_end_offset> to (?:the "
        r")?current leader's (?:latest|start) offset <truncated_to>",
        FETCHER,
        words="eset fetch offset for partition ",
    ),
    message(
        "high_watermark_set_back",
        r"Non-monotonic update of high watermark from \(offset=<previous_high_watermark>.{0,200}?\) to "
        r"\(offset=<high_watermark>",
        _LOG,
    ),
    # How logs were loaded.
    message(
        "log_load_completed", r"Completed load of <log_in>(?<!-future)(?<!-stray)(?<!-delete)<of_log> with <loaded>"
    ),
    message("future_log_loaded", r"Completed load of <log_in>-future<of_log> with <loaded>"),
    message("corruption_found", r"Corruption found in segment \d{1,19}, truncating to offset <truncated_to>", _LOADER),
    message(
        "log_emptied_at_load",
        r"Deleting all segments because logEndOffset \(<log_end_offset>\) is smaller than logStartOffset "
        r"<log_start_offset>",
        _LOADER,
    ),
    message(
        "log_emptied_at_load",
        r"Found invalid offset during recovery\. Deleting the corrupt segment and creating an empty one with starting "
        r"offset <truncated_to>",
        _LOADER,
    ),
    message(
        "invalid_messages_found",
        r"Found invalid messages in log segment <folder>/\d{20}\.log(?:\.\w+)? at byte offset \d{1,19}\.",
    ),
    message(
        "index_rebuilt",
        r"(?:Could not find offset|Found a corrupted) index file corresponding to log file (?P<detail>.{1,2000})",
        _LOADER,
        words=" index file corresponding to log file",
    ),
    # Replicas that were being moved between directories, or whose topic or place is another one now.
    message(
        "future_log_promoted", r"Attempting to recover abandoned future log for <tp> at (?P<detail>Log\(.{1,2000})"
    ),
    message("future_log_caught_up", r"The current replica is successfully replaced with the future replica for <tp>$"),
    message("stray_log", r"Found stray log dir <log_in><of_log>: (?P<detail>.{1,300})"),
    message(
        "stray_log",
        r"The topicId does not exist in <log_in><of_log>, treat it as a stray log",
        words="treat it as a stray log",
    ),
    message("stray_log", r"Loaded stray log: <folder>$"),
    message(
        "stray_log", r"Log in <folder> marked stray and renamed to .{1,1500}", words=" marked stray and renamed to "
    ),
    message(
        "stray_log",
        r"Log for partition <tp> is marked as stray and renamed to .{1,1500}",
        words=" is marked as stray and renamed to ",
    ),
    message("log_created", r"Created log for partition <tp> in <directory> with properties"),
    message(
        "clean_start",
        r"Skipping recovery of <count> logs from <directory> since clean shutdown file was found",
        words="clean shutdown file was found",
    ),
    message(
        "unclean_start",
        r"Recovering <count> logs from <directory> since no clean shutdown file was found",
        words="clean shutdown file was found",
    ),
    message("empty_start", r"No logs found to be loaded in <directory>$"),
    message("broker_epoch_unread", r"Unable to read the broker epoch in <directory>\.$"),
    message(
        "broker_epochs_differ",
        r"Found different broker epochs in <directory>\. Other=(?P<detail>-?\d{1,19}) vs current=<broker_epoch>",
    ),
    message(
        "logs_loaded",
        r"Loaded <count> logs in <duration_ms>ms(?: \(unclean log dirs = "
        r"\S{0,20}?[(\[](?P<directory>.{0,2000})[)\]]\))?",
        words=" logs in ",
    ),
)
