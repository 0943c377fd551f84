"""What the tables of messages are made of: a message, and the parts that their patterns share."""

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
