"""What brokers and controllers log of themselves and of each other: processes, sessions, fetching, disks, elections.

docs/broker_logs.md says what each line proves, and where releases differ.
"""

from __future__ import annotations

from dataclasses import dataclass

TP = r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})"
# Scala's Option, Java's Optional, or the bare id.
ID = r"(?:Some\(|Optional\[)?(?:(?P<topic_id>[a-zA-Z0-9_-]{22})|None|Optional\.empty|null)[)\]]?"
DIR = r"(?P<directory>\S.{0,1000}?)"
# Who speaks: the first word in brackets before the message.
BROKER = ("Broker",)
FETCHER = ("ReplicaFetcher", "ReplicaAlterLogDirsThread")
REPLICA_MANAGER = ("ReplicaManager",)


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


_LIFECYCLE, _CONTROLLER = ("BrokerLifecycleManager",), ("QuorumController",)
_SERVERS = ("BrokerServer", "ControllerServer", "KafkaRaftServer", "SharedServer")

NODE_MESSAGES = (
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
    Message("fetch_failed", "Error in response for fetch request ", r"Error in response for fetch request \(", FETCHER),
    Message(
        "partition_fetch_failed",
        "or partition ",
        rf"(?:Error for|Error while processing data for|Unexpected error occurred while processing data for|"
        rf"Found invalid messages during fetch for) partition {TP} (?:at )?offset (?P<log_end_offset>\d{{1,19}})",
        FETCHER,
    ),
    Message("replica_failed", " marked as failed", rf"Partition {TP} marked as failed", FETCHER),
    Message(
        "append_failed",
        "Error processing append operation on partition ",
        rf"Error processing append operation on partition (?:(?P<topic_id>[a-zA-Z0-9_-]{{22}}):)?{TP}",
        REPLICA_MANAGER,
    ),
    # Disks and memory.
    Message(
        "log_directory_failed",
        "serving replicas in dir ",
        r"(?:Stopping|Stopped) serving replicas in dir (?P<directory>.{1,1000}?)(?: with uuid \S+ because .*|)$",
        REPLICA_MANAGER,
    ),
    Message("log_directory_failed", "Stopping serving logs in dir ", rf"Stopping serving logs in dir {DIR}$"),
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
        r"reading checkpoint file|writing to highwatermark file).{1,300}|"
        r"Error while (?:creating|deleting|describing|flushing|preparing|taking|trying|closing|fetching offset) "
        r".{1,300}? (?:in dir|for|file) .{1,300})",
    ),
    Message(
        "disk_error",
        "Exception while ",
        r"(?P<detail>Exception while (?:increasing log start offset for|reading from) .{1,300}? in dir .{1,300})",
    ),
    Message(
        "disk_error",
        "Error while writing to highwatermark file",
        r"(?P<detail>Error while writing to highwatermark file.{1,300})",
        REPLICA_MANAGER,
    ),
    Message(
        "out_of_memory", "OutOfMemoryError", r"java\.lang\.OutOfMemoryError(?:: (?P<detail>.{1,200}))?", anywhere=True
    ),
    *(
        Message(kind, words, rf"java\.(?:io|nio)\.[\w.]+: .{{0,500}}?(?P<detail>{words})", anywhere=True)
        for kind, words in (
            ("disk_error", "No space left on device"),
            ("disk_error", "Input/output error"),
            ("disk_error", "Read-only file system"),
            ("too_many_open_files", "Too many open files"),
        )
    ),
    # The controller's words.
    Message(
        "unclean_election",
        "UNCLEAN partition change for ",
        rf"UNCLEAN partition change for {TP} with topic ID {ID}: isr: \[(?P<previous_isr>[\d, ]*)\] -> "
        r"\[(?P<isr>[\d, ]*)\], leader: (?P<previous_leader>-?\d{1,10}) -> (?P<leader>-?\d{1,10}), "
        r"(?:leaderRecoveryState: \w+ -> \w+, )?leaderEpoch: (?P<previous_leader_epoch>\d{1,10}) -> "
        r"(?P<leader_epoch>\d{1,10}),.{0,2000}? ?partitionEpoch: \d{1,10} -> (?P<partition_epoch>\d{1,10})",
        _CONTROLLER,
    ),
    Message(
        "leader_elected",
        "Setting new leader for topicId ",
        rf"Setting new leader for topicId {ID}, partition (?P<partition>\d{{1,10}}) to (?P<leader>-?\d{{1,10}}) using "
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
        "unclean_shutdown_handled",
        "handleBrokerUncleanShutdown: changing ",
        r"handleBrokerUncleanShutdown: changing (?P<count>\d{1,10}) partition\(s\)$",
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
        rf"Rejecting AlterPartition request from node (?P<broker_id>\d{{1,10}}) for {TP} because "
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
