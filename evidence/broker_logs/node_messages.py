"""What brokers and controllers log of themselves and of each other: processes, sessions, fetching, disks, elections.

docs/broker_logs.md says what each line proves, and where releases differ.
"""

from __future__ import annotations

from evidence.broker_logs.message import message

# Who speaks: the first word in brackets before the message.
FETCHER = ("ReplicaFetcher", "ReplicaAlterLogDirsThread")
_REPLICA_MANAGER, _LIFECYCLE, _CONTROLLER = ("ReplicaManager",), ("BrokerLifecycleManager",), ("QuorumController",)
_SERVERS = ("BrokerServer", "ControllerServer", "KafkaRaftServer", "SharedServer")

NODE_MESSAGES = (
    # The process and the broker's life.
    message("process_started", r"Registered signal handlers for TERM, INT, HUP"),
    message("process_started", r"Registered `?kafka:type=kafka\.Log4jController`? MBean", words="Log4jController"),
    message("kafka_version", r"Kafka version: (?P<detail>[0-9a-zA-Z._+-]{1,60})$"),
    message("kafka_start_time", r"Kafka startTimeMs: <printed_at_ms>$"),
    message("server_state", r"Transition from (?P<detail>[A-Z_]+ to [A-Z_]+)$", _SERVERS, words="] Transition from "),
    message("server_starting", r"Starting controller$", _SERVERS, words="] Starting controller"),
    message("server_started", r"Kafka Server started", _SERVERS),
    message("server_stopped", r"shut down completed$", _SERVERS, words="] shut down completed"),
    message("server_stopping", r"shutting down$", _SERVERS, words="] shutting down"),
    message("signal_received", r"Terminating process due to signal (?P<detail>\w+)"),
    message(
        "broker_starting",
        r"Incarnation <incarnation_id> of broker <broker_id> in cluster \S+ is now STARTING",
        _LIFECYCLE,
        words=" is now STARTING",
    ),
    message(
        "broker_registered", r"Successfully registered broker <broker_id> with broker epoch <broker_epoch>", _LIFECYCLE
    ),
    message(
        "broker_state",
        r"(?:The broker has [a-z ]{1,40}\. )?Transitioning from (?P<detail>[A-Z_]+ to [A-Z_]+)\.",
        _LIFECYCLE,
        words="Transitioning from ",
    ),
    message("controlled_shutdown_started", r"Beginning controlled shutdown", _LIFECYCLE),
    message(
        "controlled_shutdown_skipped",
        r"Skipping controlled shutdown because we are in state (?P<detail>\w+)",
        _LIFECYCLE,
    ),
    message("controlled_shutdown_granted", r"The controller has asked us to exit controlled shutdown", _LIFECYCLE),
    message(
        "controlled_shutdown_failed",
        r"(?P<detail>Timed out waiting for the controller to approve controlled shutdown|Got unexpected exception "
        r"waiting for controlled shutdown future)",
        _SERVERS,
        words="controlled shutdown",
    ),
    message(
        "registration_failed",
        r"Unable to register (?:the )?broker(?: \S+)? because (?:the controller returned error "
        r")?(?P<detail>.{1,200}?)\.?$",
        _LIFECYCLE,
    ),
    message("registration_failed", r"Unable to register broker \d{1,10}\.", _LIFECYCLE, words="Unable to register "),
    message(
        "heartbeat_failed",
        r"Unable to send (?:a|broker) heartbeat(?: for \S+?)?(?: because (?P<detail>.{1,200}?)\.?|\. Retrying\.)$",
        _LIFECYCLE,
    ),
    message(
        "heartbeat_failed",
        r"Broker <broker_id> sent a heartbeat request but received error (?P<detail>\w{1,100})",
        _LIFECYCLE,
        words="sent a heartbeat request but received error ",
    ),
    message("broker_halted", r"Shutting down because (?P<detail>.{1,300}?)\.?$", _LIFECYCLE),
    # Fetching and appending.
    message("fetch_failed", r"Error in response for fetch request \(", FETCHER),
    message(
        "partition_fetch_failed",
        r"(?:Error for|Error while processing data for|Unexpected error occurred while processing data for|Found "
        r"invalid messages during fetch for) partition <tp> (?:at )?offset <log_end_offset>",
        FETCHER,
        words="or partition ",
    ),
    message("replica_failed", r"Partition <tp> marked as failed", FETCHER, words=" marked as failed"),
    message("append_failed", r"Error processing append operation on partition (?:<topic_id>:)?<tp>", _REPLICA_MANAGER),
    # Disks and memory.
    message(
        "log_directory_failed",
        r"(?:Stopping|Stopped) serving replicas in dir <directory>(?: with uuid \S+ because .*|)$",
        _REPLICA_MANAGER,
        words="serving replicas in dir ",
    ),
    message("log_directory_failed", r"Stopping serving logs in dir <directory>$"),
    message(
        "broker_halted",
        r"Halting broker because dir <directory> is offline",
        ("LogDirFailureHandler", "ReplicaManager"),
    ),
    message(
        "broker_halted",
        r"(?:\[ReplicaManager [^\]]*\] )?Shutdown broker because (?P<detail>.{1,300})",
        words="Shutdown broker because ",
    ),
    message("disk_error", r"(?P<detail>Disk error while .{1,300})", words="Disk error while "),
    message(
        "disk_error",
        r"(?P<detail>Error while (?:appending records to|flushing log for|truncating|deleting segments for|deleting "
        r"log for|rolling log segment for|renaming dir for|loading log dir|writing to checkpoint file|reading "
        r"checkpoint file|writing to highwatermark file).{1,300}|Error while "
        r"(?:creating|deleting|describing|flushing|preparing|taking|trying|closing|fetching offset) .{1,300}? (?:in "
        r"dir|for|file) .{1,300})",
        words="Error while ",
    ),
    message(
        "disk_error",
        r"(?P<detail>Exception while (?:increasing log start offset for|reading from) .{1,300}? in dir .{1,300})",
        words="Exception while ",
    ),
    message(
        "disk_error",
        r"(?P<detail>Error while writing to highwatermark file.{1,300})",
        _REPLICA_MANAGER,
        words="Error while writing to highwatermark file",
    ),
    message("out_of_memory", r"java\.lang\.OutOfMemoryError(?:: (?P<detail>.{1,200}))?", anywhere=True),
    *(
        message(kind, rf"java\.(?:io|nio)\.[\w.]+: .{{0,500}}?(?P<detail>{words})", words=words, anywhere=True)
        for kind, words in (
            ("disk_error", "No space left on device"),
            ("disk_error", "Input/output error"),
            ("disk_error", "Read-only file system"),
            ("too_many_open_files", "Too many open files"),
        )
    ),
    # The controller's words.
    message(
        "unclean_election",
        r"UNCLEAN partition change for <tp> with topic ID <id>: isr: \[<previous_isr>\] -> \[<isr>\], leader: "
        r"<previous_leader> -> <leader>, (?:leaderRecoveryState: \w+ -> \w+, )?leaderEpoch: <previous_leader_epoch> "
        r"-> <leader_epoch>,.{0,2000}? ?partitionEpoch: \d{1,10} -> <partition_epoch>",
        _CONTROLLER,
    ),
    message(
        "leader_elected",
        r"Setting new leader for topicId <id>, partition <partition> to <leader> using (?P<detail>ELR|an unclean "
        r"election|[a-z ]{1,60})",
    ),
    message(
        "broker_fenced",
        r"Fencing broker <broker_id>(?: at epoch <broker_epoch>)? because its session has timed out",
        _CONTROLLER,
    ),
    message(
        "incarnation_registered",
        r"(?:Registering a new incarnation of broker|No previous registration found for broker) <broker_id>\. "
        r".{0,100}?[nN]ew incarnation ID is <incarnation_id>\. {1,2}Generated <count> record\(s\) to clean up "
        r"previous incarnations\. (?:Broker epoch will become|New broker epoch is) <broker_epoch>",
        _CONTROLLER,
        words="to clean up previous incarnations",
    ),
    message("unclean_shutdown_handled", r"handleBrokerUncleanShutdown: changing <count> partition\(s\)$", _CONTROLLER),
    message(
        "shutdown_requested",
        r"(?:Unfenced|Fenced) broker <broker_id> has requested and been granted (?P<detail>[a-z ]{1,60})\.?",
        _CONTROLLER,
        words=" has requested and been granted ",
    ),
    message(
        "broker_unfenced",
        r"The request from broker <broker_id> to unfence has been granted because it has caught up with the offset of "
        r"its register broker record <broker_epoch>",
        _CONTROLLER,
        words="to unfence has been granted",
    ),
    message(
        "shutdown_granted",
        r"The request from broker <broker_id> to shut down has been granted",
        _CONTROLLER,
        words="to shut down has been granted",
    ),
    message(
        "isr_change_rejected",
        r"Rejecting AlterPartition request from node <broker_id> for <tp> because (?P<detail>.{1,300})",
        _CONTROLLER,
    ),
    message(
        "controller_active",
        r"Becoming the active controller at epoch <controller_epoch>, next write offset \d{1,19}",
        _CONTROLLER,
    ),
    message(
        "controller_resigned",
        r"Renouncing the leadership due to a metadata log event\. We were the leader at epoch <controller_epoch>",
        _CONTROLLER,
    ),
)
