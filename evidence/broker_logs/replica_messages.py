"""What brokers log of their replicas: what a log held when it began to lead, to follow or was loaded, its high
watermark, and where it was cut.

docs/broker_logs.md says what each line proves, and where releases differ.
"""

from __future__ import annotations

from evidence.broker_logs.node_messages import BROKER, DIR, FETCHER, ID, TP, Message

_LEADER_ID = r"(?:(?:Some\(|Optional(?:Int)?\[)(?P<previous_leader>-?\d{1,10})[)\]]|None|Optional(?:Int)?\.empty)"
_PREVIOUS = rf"Previous leader {_LEADER_ID} and previous leader epoch was (?P<previous_leader_epoch>-?\d{{1,10}})\."
_STARTS = r"starts at leader epoch (?P<leader_epoch>\d{1,10}) from offset (?P<log_end_offset>\d{1,19}) "
# To 4.1 `and partition state LeaderAndIsrPartitionState(...)`, from 4.2 on `, partition registration
# PartitionRegistration(...) and isNew=`.
_STATE = (
    r"(?: and partition state |, partition registration )(?:LeaderAndIsrPartitionState|PartitionRegistration)"
    r"\(.{0,20000}?partitionEpoch=(?P<partition_epoch>\d{1,10}).{0,20000}?\)(?: and isNew=\w+)? since "
)
_PARTITION, _LOG, _LOADER = ("Partition",), ("UnifiedLog", "Log", "LocalLog"), ("LogLoader",)

# UnifiedLog.toString: the replica's own folder, and the rest.
_LOG_IN = r"Log\(dir=.{0,2000}?"
_OF_LOG = (
    rf", topicId={ID}, topic=(?P<topic>[a-zA-Z0-9._-]{{1,249}}), "
    r"partition=(?P<partition>\d{1,10}), highWatermark=\d{1,19}, lastStableOffset=\d{1,19}, "
    r"logStartOffset=(?P<log_start_offset>\d{1,19}), logEndOffset=(?P<log_end_offset>\d{1,19})\)"
)
# A replica's folder, as the stray, future or usual one.
_FOLDER = (
    r"(?P<directory>.{0,1000}?)/(?P<topic>[a-zA-Z0-9._-]{1,249}?)-(?P<partition>\d{1,10})(?:\.[0-9a-f]{32}-[a-z]+)?"
)

_LOADED = r".{0,200}? in (?P<duration_ms>\d{1,15})ms \(\d+/\d+ completed in (?P<directory>.{1,1000}?)\)$"


REPLICA_MESSAGES = (
    # What a replica held when it began to lead or to follow: state-change.log.
    Message(
        "leader_started",
        " starts at leader epoch ",
        rf"Leader {TP} with topic id {ID} {_STARTS}with partition epoch (?P<partition_epoch>\d{{1,10}}), "
        r"high watermark (?P<high_watermark>\d{1,19}), ISR \[(?P<isr>[\d, ]*)\], adding replicas \[[\d, ]*\] and "
        rf"removing replicas \[[\d, ]*\] ?(?P<under_min_isr>\(under-min-isr\))? ?\. {_PREVIOUS}",
        BROKER,
    ),
    Message(
        "follower_started",
        " starts at leader epoch ",
        rf"Follower {TP} {_STARTS}with partition epoch (?P<partition_epoch>\d{{1,10}}) and high watermark "
        rf"(?P<high_watermark>\d{{1,19}})\. Current leader is (?P<leader>-?\d{{1,10}})\. {_PREVIOUS}",
        BROKER,
    ),
    Message(
        "leader_unchanged",
        "the become-leader state change for ",
        rf"Skipped the become-leader state change for {TP} with topic id {ID}{_STATE}it is already the leader with "
        r"leader epoch (?P<leader_epoch>\d{1,10})\. Current high watermark (?P<high_watermark>\d{1,19}), "
        r"ISR \[(?P<isr>[\d, ]*)\]",
        BROKER,
    ),
    Message(
        "follower_unchanged",
        "the become-follower state change for ",
        rf"Skipped the become-follower state change for {TP} with topic id {ID}{_STATE}it is already a follower with "
        r"leader epoch (?P<leader_epoch>\d{1,10})\.",
        BROKER,
    ),
    Message(
        "partition_created", "Creating new partition ", rf"Creating new partition {TP} with topic id {ID}\.", BROKER
    ),
    Message(
        "partition_offline",
        "offline log directory",
        rf"Unable to bring up new local leader {TP} with topic id {ID} because it resides in an "
        rf"offline log directory",
        BROKER,
    ),
    Message(
        "partition_offline",
        "due to a storage error",
        rf"(?:Skipped the become-leader state change for|Unable to start fetching) {TP} with topic (?:id|ID) {ID} "
        r"due to a storage error (?P<detail>.{0,300})",
        BROKER,
    ),
    # The leader's ISR.
    Message(
        "isr_shrinking",
        "Shrinking ISR from ",
        r"Shrinking ISR from (?P<previous_isr>[\d,]*) to (?P<isr>[\d,]*)\. Leader: \(highWatermark: "
        r"(?P<high_watermark>\d{1,19}), endOffset: (?P<log_end_offset>\d{1,19})\)\. Out of sync replicas: "
        r"(?P<out_of_sync>\(.{0,5000})\.",
        _PARTITION,
    ),
    Message(
        "isr_updated",
        "ISR updated to ",
        r"ISR updated to (?P<isr>[\d,]*) ?(?P<under_min_isr>\(under-min-isr\))? ?and version updated to "
        r"(?P<partition_epoch>\d{1,10})",
        _PARTITION,
    ),
    Message(
        "isr_change_failed",
        "Failed to alter partition to ",
        r"Failed to alter partition to Pending.{0,5000}?"
        r"(?:since the controller rejected the request with |since |because )"
        r"(?P<detail>[^.]{1,300})",
        _PARTITION,
    ),
    Message(
        "isr_change_failed",
        "Failed to update ISR to ",
        r"Failed to update ISR to Pending.{0,5000}? due to unexpected (?P<detail>.{1,300}?)\. Retrying",
        _PARTITION,
    ),
    # High watermark and truncation.
    Message(
        "log_loaded",
        "Log loaded for partition ",
        rf"Log loaded for partition {TP} with initial high watermark (?P<high_watermark>\d{{1,19}})",
        _PARTITION,
    ),
    Message(
        "high_watermark_missing",
        "No checkpointed highwatermark",
        rf"No checkpointed highwatermark is found for partition {TP}",
        _PARTITION,
    ),
    Message(
        "truncated_below_high_watermark",
        " below high watermark ",
        rf"Truncating (?:future )?{TP} to offset (?P<truncated_to>\d{{1,19}}) below high watermark "
        r"(?P<high_watermark>\d{1,19})",
        FETCHER + _LOG,
    ),
    Message("truncated", "Truncating to offset ", r"Truncating to offset (?P<truncated_to>\d{1,19})", _LOG),
    Message(
        "truncation_without_effect",
        " has no effect as the largest offset",
        r"Truncating to (?P<truncated_to>\d{1,19}) has no effect as the largest offset in the log is "
        r"(?P<last_offset>-?\d{1,19})",
        _LOG,
    ),
    Message(
        "truncating_to_own_high_watermark",
        " due to local high watermark ",
        rf"Truncating partition {TP} with (?:Offset)?TruncationState\(offset=(?P<truncated_to>\d{{1,19}}), "
        r"completed=\w+\) due to local high watermark (?P<high_watermark>\d{1,19})",
        FETCHER,
    ),
    Message(
        "truncating_to_leaders_epoch",
        " due to leader epoch and offset ",
        rf"Truncating partition {TP} with (?:Offset)?TruncationState\(offset=(?P<truncated_to>\d{{1,19}}), "
        r"completed=\w+\) due to leader epoch and offset "
        r"EpochEndOffset\(.{0,100}?leaderEpoch=(?P<leader_epoch>\d{1,10}), "
        r"endOffset=(?P<leader_end_offset>\d{1,19})\)",
        FETCHER,
    ),
    Message(
        "fetch_offset_reset",
        "eset fetch offset for partition ",
        rf"(?:Truncate fully and reset|Reset) fetch offset for partition {TP} from (?P<log_end_offset>\d{{1,19}}) to "
        r"(?:the )?current leader's (?:latest|start) offset (?P<truncated_to>\d{1,19})",
        FETCHER,
    ),
    Message(
        "high_watermark_set_back",
        "Non-monotonic update of high watermark",
        r"Non-monotonic update of high watermark from \(offset=(?P<previous_high_watermark>\d{1,19}).{0,200}?\) to "
        r"\(offset=(?P<high_watermark>\d{1,19})",
        _LOG,
    ),
    # How logs were loaded.
    Message(
        "log_load_completed",
        "Completed load of ",
        rf"Completed load of {_LOG_IN}(?<!-future)(?<!-stray)(?<!-delete){_OF_LOG} with {_LOADED}",
    ),
    Message(
        "future_log_loaded",
        "Completed load of ",
        rf"Completed load of {_LOG_IN}-future{_OF_LOG} with {_LOADED}",
    ),
    Message(
        "corruption_found",
        "Corruption found in segment ",
        r"Corruption found in segment \d{1,19}, truncating to offset (?P<truncated_to>\d{1,19})",
        _LOADER,
    ),
    Message(
        "log_emptied_at_load",
        "Deleting all segments because logEndOffset",
        r"Deleting all segments because logEndOffset \((?P<log_end_offset>\d{1,19})\) is smaller than logStartOffset "
        r"(?P<log_start_offset>\d{1,19})",
        _LOADER,
    ),
    Message(
        "log_emptied_at_load",
        "Found invalid offset during recovery",
        r"Found invalid offset during recovery\. Deleting the corrupt segment and creating an empty one with starting "
        r"offset (?P<truncated_to>\d{1,19})",
        _LOADER,
    ),
    Message(
        "invalid_messages_found",
        "Found invalid messages in log segment ",
        rf"Found invalid messages in log segment {_FOLDER}/\d{{20}}\.log(?:\.\w+)? at byte offset \d{{1,19}}\.",
    ),
    Message(
        "index_rebuilt",
        " index file corresponding to log file",
        r"(?:Could not find offset|Found a corrupted) index file corresponding to log file (?P<detail>.{1,2000})",
        _LOADER,
    ),
    # Replicas that were being moved between directories, or whose topic or place is another one now.
    Message(
        "future_log_promoted",
        "Attempting to recover abandoned future log for ",
        rf"Attempting to recover abandoned future log for {TP} at (?P<detail>Log\(.{{1,2000}})",
    ),
    Message(
        "future_log_caught_up",
        "successfully replaced with the future replica",
        rf"The current replica is successfully replaced with the future replica for {TP}$",
    ),
    Message("stray_log", "Found stray log dir ", rf"Found stray log dir {_LOG_IN}{_OF_LOG}: (?P<detail>.{{1,300}})"),
    Message(
        "stray_log",
        "treat it as a stray log",
        rf"The topicId does not exist in {_LOG_IN}{_OF_LOG}, treat it as a stray log",
    ),
    Message("stray_log", "Loaded stray log: ", rf"Loaded stray log: {_FOLDER}$"),
    Message("stray_log", " marked stray and renamed to ", rf"Log in {_FOLDER} marked stray and renamed to .{{1,1500}}"),
    Message(
        "stray_log",
        " is marked as stray and renamed to ",
        rf"Log for partition {TP} is marked as stray and renamed to .{{1,1500}}",
    ),
    Message("log_created", "Created log for partition ", rf"Created log for partition {TP} in {DIR} with properties"),
    Message(
        "clean_start",
        "clean shutdown file was found",
        rf"Skipping recovery of (?P<count>\d{{1,10}}) logs from {DIR} since clean shutdown file was found",
    ),
    Message(
        "unclean_start",
        "clean shutdown file was found",
        rf"Recovering (?P<count>\d{{1,10}}) logs from {DIR} since no clean shutdown file was found",
    ),
    Message("empty_start", "No logs found to be loaded in ", rf"No logs found to be loaded in {DIR}$"),
    Message("broker_epoch_unread", "Unable to read the broker epoch", rf"Unable to read the broker epoch in {DIR}\.$"),
    Message(
        "broker_epochs_differ",
        "Found different broker epochs",
        rf"Found different broker epochs in {DIR}\. Other=(?P<detail>-?\d{{1,19}}) vs "
        rf"current=(?P<broker_epoch>\d{{1,19}})",
    ),
    Message(
        "logs_loaded",
        " logs in ",
        r"Loaded (?P<count>\d{1,10}) logs in (?P<duration_ms>\d{1,15})ms"
        r"(?: \(unclean log dirs = \S{0,20}?[(\[](?P<directory>.{0,2000})[)\]]\))?",
    ),
)
