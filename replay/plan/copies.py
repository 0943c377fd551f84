"""The steps that keep evidence: what to copy from the disks before a start or an election truncates it.

Sources: KIP-101 (a follower truncates what its leader lacks, as soon as it follows it); Kafka's BrokerServer.startup
and BrokerMetadataPublisher.initializeManagers (a broker registers before it loads its logs, and follows after that,
3.9.1 to 4.3.1): one that registered again and was never unfenced may have truncated nothing yet.
"""

from collections.abc import Iterator, Sequence

from replay.arrow.runs import groups
from replay.loss.verdicts import PROVEN
from replay.plan.inputs import PlanInput, members_of, named, places_of
from replay.plan.start_order import BY_LOG, LAST_KNOWN, NOBODY
from replay.plan.step import (
    MOST_PLACES,
    Action,
    PlanStep,
    Row,
    What,
    about,
    broker_state,
    count,
    is_active,
    is_legal,
    joined,
    moment,
    place,
    say,
    size_text,
    some,
    step,
    visible,
)


def copy(given: PlanInput) -> Iterator[PlanStep]:
    """What a start rewrites or truncates, where records are lost or an election will be unclean. Before such an
    election also the logs of replicas that run: they truncate as soon as there is a leader."""
    unclean = [w for w in given.waiting if w.by in (LAST_KNOWN, BY_LOG, NOBODY) or w.passed_over or w.leader_left]
    pairs = [(b, row) for each in unclean for row in places_of(given, [each]) for b in each.replicas]
    lost = [(b, row) for b, row in _holders(given) if not _followed(given, b, row)]
    running = sorted({b for b, _ in pairs if is_active(given.brokers, b)} - {b for b, _ in lost})
    failed = [(b, row) for b, row in lost if b in row["candidates"]]
    pairs += lost
    if not pairs:
        return
    by_broker = {broker: [row for _, row in rows] for broker, rows in groups(pairs, lambda pair: pair[0]).items()}
    brokers = sorted(by_broker)
    down = [broker for broker in brokers if broker not in running]
    last = [each for each in unclean if each.by == LAST_KNOWN or each.leader_left]
    more = {b: sum(each.left_out for each in unclean if b in each.replicas) for b in brokers}
    compare = f" Compare the copies of {named(last)} before {joined(members_of(last))} starts." if last else ""
    folders = (text for b in brokers for text in _folders(given, b, by_broker[b]))
    yield step(
        "copy",
        when=f"{joined(down, 'or')} start{'s' * (len(down) == 1)}" if down else "anybody is elected",
        also=f", also of {joined(running)}, which run{'s' * (len(running) == 1)}" if running else "",
        compare=compare,
        facts=(*folders, say("files"), *(broker_state(given.brokers, b) for b in brokers)),
        assumptions=(say("failed_directory", place=place(row), broker=b) for b, row in failed[:MOST_PLACES]),
        predictions=(
            say("rewritten"),
            *([say("last_known_leads")] if any(each.by == LAST_KNOWN for each in last) else []),
            *([say("truncates_then")] if running else []),
            *_tiered(given, [row for _, row in pairs]),
            say("salvage"),
        ),
        actions=(action for b in brokers for action in _copy_logs(b, by_broker[b], more[b])),
        brokers=brokers,
        of=about(row for _, row in pairs),
    )


def _tiered(given: PlanInput, rows: Sequence[Row]) -> Iterator[str]:
    """Of topics with remote.storage.enable (RemoteLogManager.cleanupExpiredRemoteLogSegments, 3.9.1 to 4.3.1)."""
    configs = [c for c in given.configs if (c["resource_type"], c["name"]) == ("topic", "remote.storage.enable")]
    on = {config["resource_name"] for config in configs if config["value"] == "true"}
    if topics := sorted({row["topic"] for row in rows} & on):
        yield say("tiered", topics=some([visible(topic) for topic in topics], 5))


def _folders(given: PlanInput, broker: int, rows: Sequence[Row]) -> Iterator[str]:
    """What to copy of a broker, and how much space that takes by the newest readings."""
    yield say("folders", broker=broker, places=some(sorted({place(row) for row in rows})))
    places = {(row["topic"], row["partition"]) for row in rows}
    sizes = [of[broker] for at in places if broker in (of := given.sizes.get(at, {}))]
    if sizes:
        whole = "" if len(sizes) == len(places) else f" for {len(sizes)} of {count(len(places), 'partition')}"
        sources = " and ".join(sorted({row["source"] for row in sizes}))
        read, space = moment(min(row["captured_at_ms"] for row in sizes)), sum(row["size_bytes"] for row in sizes)
        yield say("space", size=size_text(space), broker=broker, whole=whole, sources=sources, read=read)


def _copy_logs(broker: int, rows: Sequence[Row], more: int) -> Iterator[Action]:
    names = sorted({place(row) for row in rows if is_legal(row["topic"])})
    if names:
        yield Action(What.COPY_LOGS, name=",".join(names), more=more, broker=broker)


def _holders(given: PlanInput) -> Iterator[tuple[int, Row]]:
    """(broker whose disk may have what the window's election lost, window): of each window the last leader, and all
    replicas that did not run then: the leader's disk may be gone or truncated, and theirs have the same records."""
    replicas = {(state["topic_id"], state["partition"]): state["replicas"] for state in given.alone}
    for row in given.lost:
        at_end = replicas.get((row["topic_id"], row["partition"]), ())
        down = {*row["isr_before"], *row["elr_before"], *at_end} - {*row["candidates"]}
        for broker in sorted({*down, row["previous_leader"]} - {None, -1, row["recorded_leader"]}):
            yield broker, row


def _followed(given: PlanInput, broker: int, row: Row) -> bool:
    """Whether the broker became active after the window's election: it followed the new leader then. For one that ran
    all the time this takes a new session, or that it joined the ISR again (with ELR another one is elected while a
    leader that was killed is back): else its directory may have failed, and keeps what it had. Or whether it is the
    new leader, which certainly has less than it had (of a disk that was replaced, say)."""
    if (broker == row["recorded_leader"] and row["verdict"] == PROVEN) or (
        broker == row["previous_leader"] and row["joined_again"]
    ):
        return True
    epoch, since = given.active.get(broker, (-1, -1))
    election = row["election_offset"]
    return election is not None and (epoch if broker in row["candidates"] else since) > election


def _is_back(given: PlanInput, broker: int, row: Row) -> bool:
    """Whether the broker came back after the window's election, at least to register."""
    known, election = given.brokers.get(broker), row["election_offset"]
    epoch = known["broker_epoch"] if known is not None and known["incarnation_id"] is not None else None
    return _followed(given, broker, row) or (None not in (epoch, election) and epoch > election)


def find_old_copies(given: PlanInput) -> Iterator[PlanStep]:
    """For last leaders that came back, perhaps to lead again: what the new leader lacked is gone from their disks, or
    soon will be."""
    led = [(row["previous_leader"], row) for row in given.lost if row["previous_leader"] not in (None, -1)]
    pairs = [(broker, row) for broker, row in led if _is_back(given, broker, row)]
    if pairs:
        by_broker = groups(pairs, lambda pair: pair[0])
        brokers = sorted(by_broker)
        following = [b for b in brokers if all(_followed(given, b, row) for _, row in by_broker[b])]
        again = [b for b in following if all(row["recorded_leader"] == b for _, row in by_broker[b])]
        truncated = [b for b in following if b not in again]
        yield step(
            "find_old_copies",
            leaders=joined(brokers),
            facts=(say("led", broker=b, places=some(sorted({place(r) for _, r in by_broker[b]}))) for b in brokers),
            predictions=(
                *([say("truncated", followers=joined(truncated))] if truncated else []),
                *(say("led_again", broker=b) for b in again),
                *(say("not_truncated_yet", broker=b) for b in brokers if b not in following),
                say("salvage"),
            ),
            brokers=brokers,
            of=about(row for _, row in pairs),
        )
