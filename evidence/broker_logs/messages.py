"""The messages of brokers and controllers that are evidence, as data: for each the words it is found by, who says it,
and the pattern that names its fields.

Texts: Kafka's source of 3.9, the class files of 3.9.1, 4.0.2, 4.1.1, 4.3.1 and 4.4.0, and what 3.9.1, 4.0.2, 4.1.1,
4.2.0, 4.3.1 and 4.4.0 wrote. docs/broker_logs.md says what each proves, and where releases differ. A group's name is a
column of tables.BROKER_LOG_EVENTS. Patterns match from the message's first character, so that what a client puts into a
name or an error cannot pass for a broker's word.
"""

from __future__ import annotations

from dataclasses import dataclass

_TP = r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})"
# Scala's Option, Java's Optional, or the bare id.
_ID = r"(?:Some\(|Optional\[)?(?:(?P<topic_id>[a-zA-Z0-9_-]{22})|None|Optional\.empty|null)[)\]]?"
_LEADER_ID = r"(?:(?:Some\(|Optional(?:Int)?\[)(?P<previous_leader>-?\d{1,10})[)\]]|None|Optional(?:Int)?\.empty)"
_PREVIOUS = rf"Previous leader {_LEADER_ID} and previous leader epoch was (?P<previous_leader_epoch>-?\d{{1,10}})\."
_STARTS = r"starts at leader epoch (?P<leader_epoch>\d{1,10}) from offset (?P<log_end_offset>\d{1,19}) "
# To 4.1 `and partition state LeaderAndIsrPartitionState(...)`, from 4.2 on `, partition registration
# PartitionRegistration(...) and isNew=`.
_STATE = (
    r"(?: and partition state |, partition registration )(?:LeaderAndIsrPartitionState|PartitionRegistration)"
    r"\(.{0,20000}?partitionEpoch=(?P<partition_epoch>\d{1,10}).{0,20000}?\)(?: and isNew=\w+)? since "
)
_DIR = r"(?P<directory>\S.{0,1000}?)"

# Who speaks: the first word in brackets before the message.
_BROKER, _PARTITION, _LOG, _LOADER = ("Broker",), ("Partition",), ("UnifiedLog", "Log", "LocalLog"), ("LogLoader",)
_FETCHER = ("ReplicaFetcher", "ReplicaAlterLogDirsThread")
_LIFECYCLE, _CONTROLLER = ("BrokerLifecycleManager",), ("QuorumController",)
_SERVERS = ("BrokerServer", "ControllerServer", "KafkaRaftServer", "SharedServer")


@dataclass(frozen=True, slots=True)
class Message:
    """kind: of the event. words: a literal that every such line holds, as it is in the file. pattern: of the message
    after what stands in brackets before it; its groups are columns. speakers: the first words in those brackets that
    are allowed; empty: there are none. anywhere: the words may stand in any line, a stack trace's too."""

    kind: str
    words: str
    pattern: str
    speakers: tuple[str, ...] = ()
    anywhere: bool = False


MESSAGES = (
    # What a replica held when it began to lead or to follow: state-change.log.
    Message(
        "leader_started",
        " starts at leader epoch ",
        rf"Leader {_TP} with topic id {_ID} {_STARTS}with partition epoch (?P<partition_epoch>\d{{1,10}}), "
        r"high watermark (?P<high_watermark>\d{1,19}), ISR \[(?P<isr>[\d, ]*)\], adding replicas \[[\d, ]*\] and "
        rf"removing replicas \[[\d, ]*\] ?(?P<under_min_isr>\(under-min-isr\))? ?\. {_PREVIOUS}",
        _BROKER,
    ),
    Message(
        "follower_started",
        " starts at leader epoch ",
        rf"Follower {_TP} {_STARTS}with partition epoch (?P<partition_epoch>\d{{1,10}}) and high watermark "
        rf"(?P<high_watermark>\d{{1,19}})\. Current leader is (?P<leader>-?\d{{1,10}})\. {_PREVIOUS}",
        _BROKER,
    ),
    Message(
        "leader_unchanged",
        "the become-leader state change for ",
        rf"Skipped the become-leader state change for {_TP} with topic id {_ID}{_STATE}it is already the leader with "
        r"leader epoch (?P<leader_epoch>\d{1,10})\. Current high watermark (?P<high_watermark>\d{1,19}), "
        r"ISR \[(?P<isr>[\d, ]*)\]",
        _BROKER,
    ),
    Message(
        "follower_unchanged",
        "the become-follower state change for ",
        rf"Skipped the become-follower state change for {_TP} with topic id {_ID}{_STATE}it is already a follower with "
        r"leader epoch (?P<leader_epoch>\d{1,10})\.",
        _BROKER,
    ),
    Message(
        "partition_created", "Creating new partition ", rf"Creating new partition {_TP} with topic id {_ID}\.", _BROKER
    ),
    Message(
        "partition_offline",
        "offline log directory",
        rf"Unable to bring up new local leader {_TP} with topic id {_ID} because it resides in an "
        rf"offline log directory",
        _BROKER,
    ),
    Message(
        "partition_offline",
        "due to a storage error",
        rf"(?:Skipped the become-leader state change for|Unable to start fetching) {_TP} with topic (?:id|ID) {_ID} "
        r"due to a storage error (?P<detail>.{0,300})",
        _BROKER,
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
        rf"Log loaded for partition {_TP} with initial high watermark (?P<high_watermark>\d{{1,19}})",
        _PARTITION,
    ),
    Message(
        "high_watermark_missing",
        "No checkpointed highwatermark",
        rf"No checkpointed highwatermark is found for partition {_TP}",
        _PARTITION,
    ),
    Message(
        "truncated_below_high_watermark",
        " below high watermark ",
        rf"Truncating (?:future )?{_TP} to offset (?P<truncated_to>\d{{1,19}}) below high watermark "
        r"(?P<high_watermark>\d{1,19})",
        _FETCHER + _LOG,
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
        rf"Truncating partition {_TP} with (?:Offset)?TruncationState\(offset=(?P<truncated_to>\d{{1,19}}), "
        r"completed=\w+\) due to local high watermark (?P<high_watermark>\d{1,19})",
        _FETCHER,
    ),
    Message(
        "truncating_to_leaders_epoch",
        " due to leader epoch and offset ",
        rf"Truncating partition {_TP} with (?:Offset)?TruncationState\(offset=(?P<truncated_to>\d{{1,19}}), "
        r"completed=\w+\) due to leader epoch and offset "
        r"EpochEndOffset\(.{0,100}?leaderEpoch=(?P<leader_epoch>\d{1,10}), "
        r"endOffset=(?P<leader_end_offset>\d{1,19})\)",
        _FETCHER,
    ),
    Message(
        "fetch_offset_reset",
        "eset fetch offset for partition ",
        rf"(?:Truncate fully and reset|Reset) fetch offset for partition {_TP} from (?P<log_end_offset>\d{{1,19}}) to "
        r"(?:the )?current leader's (?:latest|start) offset (?P<truncated_to>\d{1,19})",
        _FETCHER,
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
        rf"Completed load of Log\(dir=.{{0,2000}}?, topicId={_ID}, topic=(?P<topic>[a-zA-Z0-9._-]{{1,249}}), "
        r"partition=(?P<partition>\d{1,10}), highWatermark=\d{1,19}, lastStableOffset=\d{1,19}, "
        r"logStartOffset=(?P<log_start_offset>\d{1,19}), logEndOffset=(?P<log_end_offset>\d{1,19})\) with "
        r".{0,200}? in (?P<duration_ms>\d{1,15})ms \(\d+/\d+ completed in (?P<directory>.{1,1000}?)\)$",
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
    Message("log_created", "Created log for partition ", rf"Created log for partition {_TP} in {_DIR} with properties"),
    Message(
        "clean_start",
        "clean shutdown file was found",
        rf"Skipping recovery of (?P<count>\d{{1,10}}) logs from {_DIR} since clean shutdown file was found",
    ),
    Message(
        "unclean_start",
        "clean shutdown file was found",
        rf"Recovering (?P<count>\d{{1,10}}) logs from {_DIR} since no clean shutdown file was found",
    ),
    Message("empty_start", "No logs found to be loaded in ", rf"No logs found to be loaded in {_DIR}$"),
    Message("broker_epoch_unread", "Unable to read the broker epoch", rf"Unable to read the broker epoch in {_DIR}\.$"),
    Message(
        "broker_epochs_differ",
        "Found different broker epochs",
        rf"Found different broker epochs in {_DIR}\. Other=(?P<detail>-?\d{{1,19}}) vs "
        rf"current=(?P<broker_epoch>\d{{1,19}})",
    ),
    Message(
        "logs_loaded",
        " logs in ",
        r"Loaded (?P<count>\d{1,10}) logs in (?P<duration_ms>\d{1,15})ms"
        r"(?: \(unclean log dirs = \S{0,20}?[(\[](?P<directory>.{0,2000})[)\]]\))?",
    ),
    # The process and the broker's life.
    Message("process_started", "Registered signal handlers for ", r"Registered signal handlers for TERM, INT, HUP"),
    Message("process_started", "Log4jController", r"Registered `?kafka:type=kafka\.Log4jController`? MBean"),
    Message("kafka_version", "Kafka version: ", r"Kafka version: (?P<detail>[0-9a-zA-Z._+-]{1,60})$"),
    Message("kafka_start_time", "Kafka startTimeMs: ", r"Kafka startTimeMs: (?P<printed_at_ms>\d{13})$"),
    Message("server_state", "] Transition from ", r"Transition from (?P<detail>[A-Z_]+ to [A-Z_]+)$", _SERVERS),
    Message("server_starting", "] Starting controller", r"Starting controller$", _SERVERS),
    Message("server_started", "Kafka Server started", r"Kafka Server started", _SERVERS),
    Message("server_stopped", "] shut down completed", r"shut down completed$", _SERVERS),
    Message("server_stopping", "] shutting down", r"shutting down$", _SERVERS),
    Message(
        "signal_received", "Terminating process due to signal ", r"Terminating process due to signal (?P<detail>\w+)"
    ),
    Message(
        "broker_starting",
        " is now STARTING",
        r"Incarnation (?P<incarnation_id>[a-zA-Z0-9_-]{22}) of broker (?P<broker_id>\d{1,10}) in "
        r"cluster \S+ is now STARTING",
        _LIFECYCLE,
    ),
    Message(
        "broker_registered",
        "Successfully registered broker ",
        r"Successfully registered broker (?P<broker_id>\d{1,10}) with broker epoch (?P<broker_epoch>\d{1,19})",
        _LIFECYCLE,
    ),
    Message(
        "broker_state",
        "Transitioning from ",
        r"(?:The broker has [a-z ]{1,40}\. )?Transitioning from (?P<detail>[A-Z_]+ to [A-Z_]+)\.",
        _LIFECYCLE,
    ),
    Message(
        "controlled_shutdown_started", "Beginning controlled shutdown", r"Beginning controlled shutdown", _LIFECYCLE
    ),
    Message(
        "controlled_shutdown_skipped",
        "Skipping controlled shutdown",
        r"Skipping controlled shutdown because we are in state (?P<detail>\w+)",
        _LIFECYCLE,
    ),
    Message(
        "controlled_shutdown_granted",
        "asked us to exit controlled shutdown",
        r"The controller has asked us to exit controlled shutdown",
        _LIFECYCLE,
    ),
    Message(
        "controlled_shutdown_failed",
        "controlled shutdown",
        r"(?P<detail>Timed out waiting for the controller to approve controlled shutdown|"
        r"Got unexpected exception waiting for controlled shutdown future)",
        _SERVERS,
    ),
    Message(
        "registration_failed",
        "Unable to register ",
        r"Unable to register (?:the )?broker(?: \S+)? because (?:the controller returned error "
        r")?(?P<detail>.{1,200}?)\.?$",
        _LIFECYCLE,
    ),
    Message("registration_failed", "Unable to register ", r"Unable to register broker \d{1,10}\.", _LIFECYCLE),
    Message(
        "heartbeat_failed",
        "Unable to send ",
        r"Unable to send (?:a|broker) heartbeat(?: for \S+?)?(?: because (?P<detail>.{1,200}?)\.?|\. Retrying\.)$",
        _LIFECYCLE,
    ),
    Message(
        "heartbeat_failed",
        "sent a heartbeat request but received error ",
        r"Broker (?P<broker_id>\d{1,10}) sent a heartbeat request but received error (?P<detail>\w{1,100})",
        _LIFECYCLE,
    ),
    Message("broker_halted", "Shutting down because ", r"Shutting down because (?P<detail>.{1,300}?)\.?$", _LIFECYCLE),
    # Fetching and appending.
    Message(
        "fetch_failed", "Error in response for fetch request ", r"Error in response for fetch request \(", _FETCHER
    ),
    Message(
        "partition_fetch_failed",
        "or partition ",
        rf"(?:Error for|Error while processing data for|Unexpected error occurred while processing data for|"
        rf"Found invalid messages during fetch for) partition {_TP} (?:at )?offset (?P<log_end_offset>\d{{1,19}})",
        _FETCHER,
    ),
    Message("replica_failed", " marked as failed", rf"Partition {_TP} marked as failed", _FETCHER),
    Message(
        "append_failed",
        "Error processing append operation on partition ",
        rf"Error processing append operation on partition (?:(?P<topic_id>[a-zA-Z0-9_-]{{22}}):)?{_TP}",
        ("ReplicaManager",),
    ),
    # Disks and memory.
    Message(
        "log_directory_failed",
        "serving replicas in dir ",
        r"(?:Stopping|Stopped) serving replicas in dir (?P<directory>.{1,1000}?)(?: with uuid \S+ because .*|)$",
        ("ReplicaManager",),
    ),
    Message("log_directory_failed", "Stopping serving logs in dir ", rf"Stopping serving logs in dir {_DIR}$"),
    Message(
        "broker_halted",
        "because dir ",
        r"Halting broker because dir (?P<directory>.{1,1000}?) is offline",
        ("LogDirFailureHandler", "ReplicaManager"),
    ),
    Message(
        "broker_halted",
        "Shutdown broker because ",
        r"(?:\[ReplicaManager [^\]]*\] )?Shutdown broker because (?P<detail>.{1,300})",
    ),
    Message("disk_error", "Disk error while ", r"(?P<detail>Disk error while .{1,300})"),
    Message(
        "disk_error",
        "Error while ",
        r"(?P<detail>Error while (?:appending records to|flushing log for|truncating|deleting segments for|"
        r"deleting log for|rolling log segment for|renaming dir for|loading log dir|writing to checkpoint file|"
        r"reading checkpoint file|writing to highwatermark file).{1,300})",
    ),
    Message(
        "disk_error",
        "Error while writing to highwatermark file",
        r"(?P<detail>Error while writing to highwatermark file.{1,300})",
        ("ReplicaManager",),
    ),
    Message(
        "out_of_memory", "OutOfMemoryError", r"java\.lang\.OutOfMemoryError(?:: (?P<detail>.{1,200}))?", anywhere=True
    ),
    Message(
        "disk_error",
        "No space left on device",
        r"java\.(?:io|nio)\.[\w.]+: .{0,500}?(?P<detail>No space left on device)",
        anywhere=True,
    ),
    Message(
        "disk_error",
        "Input/output error",
        r"java\.(?:io|nio)\.[\w.]+: .{0,500}?(?P<detail>Input/output error)",
        anywhere=True,
    ),
    Message(
        "disk_error",
        "Read-only file system",
        r"java\.(?:io|nio)\.[\w.]+: .{0,500}?(?P<detail>Read-only file system)",
        anywhere=True,
    ),
    Message(
        "too_many_open_files",
        "Too many open files",
        r"java\.(?:io|nio)\.[\w.]+: .{0,500}?(?P<detail>Too many open files)",
        anywhere=True,
    ),
    # The controller's words.
    Message(
        "unclean_election",
        "UNCLEAN partition change for ",
        rf"UNCLEAN partition change for {_TP} with topic ID {_ID}: isr: \[(?P<previous_isr>[\d, ]*)\] -> "
        r"\[(?P<isr>[\d, ]*)\], leader: (?P<previous_leader>-?\d{1,10}) -> (?P<leader>-?\d{1,10}), "
        r"(?:leaderRecoveryState: \w+ -> \w+, )?leaderEpoch: (?P<previous_leader_epoch>\d{1,10}) -> "
        r"(?P<leader_epoch>\d{1,10}),.{0,2000}? ?partitionEpoch: \d{1,10} -> (?P<partition_epoch>\d{1,10})",
        _CONTROLLER,
    ),
    Message(
        "leader_elected",
        "Setting new leader for topicId ",
        rf"Setting new leader for topicId {_ID}, partition (?P<partition>\d{{1,10}}) to (?P<leader>-?\d{{1,10}}) using "
        r"(?P<detail>ELR|an unclean election|[a-z ]{1,60})",
    ),
    Message(
        "broker_fenced",
        "Fencing broker ",
        r"Fencing broker (?P<broker_id>\d{1,10})(?: at epoch (?P<broker_epoch>\d{1,19}))? because its "
        r"session has timed out",
        _CONTROLLER,
    ),
    Message(
        "incarnation_registered",
        "to clean up previous incarnations",
        r"(?:Registering a new incarnation of broker|No previous registration found for broker) "
        r"(?P<broker_id>\d{1,10})\. "
        r".{0,100}?[nN]ew incarnation ID is (?P<incarnation_id>[a-zA-Z0-9_-]{22})\. {1,2}Generated (?P<count>\d{1,10}) "
        r"record\(s\) to clean up previous incarnations\. (?:Broker epoch will become|New broker epoch is) "
        r"(?P<broker_epoch>\d{1,19})",
        _CONTROLLER,
    ),
    Message(
        "shutdown_requested",
        " has requested and been granted ",
        r"(?:Unfenced|Fenced) broker (?P<broker_id>\d{1,10}) has requested and been granted "
        r"(?P<detail>[a-z ]{1,60})\.?",
        _CONTROLLER,
    ),
    Message(
        "broker_unfenced",
        "to unfence has been granted",
        r"The request from broker (?P<broker_id>\d{1,10}) to unfence has been granted because it has "
        r"caught up with the "
        r"offset of its register broker record (?P<broker_epoch>\d{1,19})",
        _CONTROLLER,
    ),
    Message(
        "shutdown_granted",
        "to shut down has been granted",
        r"The request from broker (?P<broker_id>\d{1,10}) to shut down has been granted",
        _CONTROLLER,
    ),
    Message(
        "isr_change_rejected",
        "Rejecting AlterPartition request from node ",
        rf"Rejecting AlterPartition request from node (?P<broker_id>\d{{1,10}}) for {_TP} because "
        rf"(?P<detail>.{{1,300}})",
        _CONTROLLER,
    ),
    Message(
        "controller_active",
        "Becoming the active controller at epoch ",
        r"Becoming the active controller at epoch (?P<controller_epoch>\d{1,10}), next write offset \d{1,19}",
        _CONTROLLER,
    ),
    Message(
        "controller_resigned",
        "Renouncing the leadership",
        r"Renouncing the leadership due to a metadata log event\. We were the leader at epoch "
        r"(?P<controller_epoch>\d{1,10})",
        _CONTROLLER,
    ),
)

KINDS = tuple(dict.fromkeys(m.kind for m in MESSAGES))
