"""What the words of the report mean: for the end of the page, its headings and docs/glossary.md."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A word, its meaning in one or two plain sentences, and where docs/ says more (empty: nowhere)."""

    name: str
    meaning: str
    see: str = ""

    @property
    def anchor(self) -> str:
        """The id of its place: `min ISR` -> `term-min-isr`."""
        return "term-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


# In alphabetical order.
TERMS = (
    Term(
        "acks",
        "What a producer waits for: acks=all for all in-sync replicas, acks=1 for the leader alone, acks=0 "
        "for nothing.",
    ),
    Term(
        "active controller",
        "The controller that writes the metadata log. The others follow and take over when it fails.",
    ),
    Term(
        "broker epoch",
        "A number that a broker gets when it registers. A new registration has a higher one.",
        "concepts.md#leader-epoch",
    ),
    Term(
        "capture",
        "A folder or archive with files copied from a cluster's nodes. kraft-forensics reads nothing else.",
        "evidence.md",
    ),
    Term(
        "clean shutdown",
        "The broker wrote everything to disk and left a marker file. An unclean shutdown (a crash, a loss of "
        "power) may lose the end of a log.",
    ),
    Term(
        "controlled shutdown",
        "A broker asks the controller to move its leaders away before it stops.",
    ),
    Term(
        "cut off",
        "A replica's log got shorter, because its leader's log lacks these records, or because they were lost "
        "in a crash.",
        "findings.md#logs-that-were-cut-back",
    ),
    Term(
        "ELR",
        "Eligible leader replicas (KIP-966): replicas that have left the ISR and still have everything below "
        "the high watermark. They may be elected.",
        "concepts.md#elr-eligible-leader-replicas",
    ),
    Term(
        "excluded",
        "A verdict: nothing below the high watermark was lost in this window.",
        "findings.md#verdicts",
    ),
    Term(
        "exposure",
        "A time in which one more failure costs records or availability: no leader, or one replica left.",
        "findings.md#exposure",
    ),
    Term(
        "fenced",
        "A broker that the controller takes for dead or not ready. It leads nothing.",
    ),
    Term(
        "finding",
        "One claim of kraft-forensics, with a verdict and the rows, files and bytes that it rests on.",
        "findings.md",
    ),
    Term(
        "high watermark",
        "The offset up to which all in-sync replicas have a partition's log. Records below it are "
        "acknowledged (acks=all), and only they can be consumed.",
        "concepts.md#high-watermark-and-isr",
    ),
    Term(
        "ISR",
        "In-sync replicas: the replicas that keep up with the leader, so each has everything below the high watermark.",
        "concepts.md#high-watermark-and-isr",
    ),
    Term(
        "lake",
        "The folder or bucket with the Delta tables that a run writes.",
        "tables.md",
    ),
    Term(
        "last known ELR",
        "Who was eligible before, and may have lost records in an unclean shutdown. Releases of Kafka keep at "
        "most one broker here: the last known leader.",
        "concepts.md#last-known-leader",
    ),
    Term(
        "last known leader",
        "The broker that led last, kept while ISR and ELR are empty.",
        "concepts.md#last-known-leader",
    ),
    Term(
        "leader",
        "The replica that producers write to and the others copy from. Leader -1 or none: the partition has no leader.",
    ),
    Term(
        "leader epoch",
        "A number that grows with each change of leader. Each record carries the epoch of the leader that wrote it.",
        "concepts.md#leader-epoch",
    ),
    Term(
        "likely",
        "Which way a window leans that is neither proven nor excluded, lost or kept, by rules that are usually right. "
        "It is no verdict, and no number counts it.",
        "findings.md#likely-which-way-an-open-window-leans",
    ),
    Term(
        "log end",
        "The offset after the last record of a replica's log.",
    ),
    Term(
        "metadata log",
        "The partition __cluster_metadata-0, in which the controllers write every change of brokers, topics, "
        "partitions and configs.",
    ),
    Term(
        "metadata offset",
        "The position of a record in the metadata log. Windows and elections are named by it.",
    ),
    Term(
        "min ISR",
        "min.insync.replicas: with fewer in-sync replicas than this, a leader refuses acks=all.",
    ),
    Term(
        "offset",
        "The position of a record in a partition's log: 0, 1, 2 and so on.",
    ),
    Term(
        "possible",
        "A verdict: the known bounds allow a loss, and allow that there was none.",
        "findings.md#verdicts",
    ),
    Term(
        "proven",
        "A verdict: the evidence shows the loss.",
        "findings.md#verdicts",
    ),
    Term(
        "RECOVERING",
        "The controller's mark on a leader that was elected uncleanly and has not yet recovered its log.",
    ),
    Term(
        "replica",
        "One of the brokers that keep a copy of a partition.",
    ),
    Term(
        "unclean election",
        "An election of a replica from outside ISR and ELR. It may lack acknowledged records.",
    ),
    Term(
        "unclean recovery",
        "KIP-966's election when ISR and ELR cannot give a leader: ask the replicas how long their logs are, "
        "and elect the longest. No release of Kafka has it yet.",
        "whatif.md",
    ),
    Term(
        "undetermined",
        "A verdict: nothing bounds the loss, in either direction.",
        "findings.md#verdicts",
    ),
    Term(
        "verdict",
        "What the evidence says about a window: proven, possible, excluded or undetermined.",
        "concepts.md#verdict",
    ),
    Term(
        "window",
        "The time from the record that exposed a partition to the record that made it safe again. Each "
        "election in it is judged.",
        "concepts.md#window",
    ),
)

_BY_NAME = {term.name: term for term in TERMS}


def term(name: str) -> Term:
    """Raises KeyError for a word that is not in TERMS."""
    return _BY_NAME[name]
