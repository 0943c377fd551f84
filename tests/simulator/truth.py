"""What nobody can see from outside: which records were promised (below the high watermark of a process that acted as
leader), and which of them each elected replica did not have when it took over."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.simulator.logs import Log


@dataclass(frozen=True)
class Truth:
    """Of one election. lost: promised records that the winner's log lacked; first: the lowest of their offsets.
    would_lose: by replica, what electing it instead would have lost at that time. unacked: records of the last leader
    process's log at its end that the winner lacked, acknowledged by all or not; unacked_most: the same of all logs
    that can be meant by that (an earlier process of the epoch, a leader that never knew it was one, a coordinator that
    wrote by itself before anybody reached it). log_start: of the last leader's log."""

    lost: int
    first: int | None
    would_lose: dict[int, int]
    unacked: int
    unacked_most: int
    log_start: int = 0


@dataclass
class Reign:
    """A process that acts as leader of an epoch; log: while it does so, afterwards as it was at its end."""

    broker: int
    epoch: int
    log: Log
    ended: bool = False

    def end(self) -> None:
        if not self.ended:
            self.log, self.ended = Log(self.log.records, start=self.log.start), True


@dataclass
class _Election:
    """had: the winner's log when it took over (led); of one that never knew, what it had when it was elected
    (at_election), when a record was promised (held), or at the end of its term.
    seen: what its processes had when they ended before they led."""

    offset: int
    epoch: int
    winner: int
    is_member: bool
    at_election: Log
    had: frozenset[int] | None = None
    held: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    led: bool = False
    lost: set[int] = field(default_factory=set)
    would_lose: dict[int, int] = field(default_factory=dict)
    reigns: list[Reign] = field(default_factory=list)
    nominal: set[int] = field(default_factory=set)


@dataclass
class Ledger:
    """The truth of one topic, as it grows. pending: records promised and not lost so far. A promise of a leader that
    was replaced already is held against the election that replaced it. unreached: by epoch, the logs of processes that
    nobody reached, when they had written by themselves. deleted: below a leader's log start, whoever else has them. A
    follower is cut back to its leader's log start, not below, so its log may have an older record at the offset of such
    a one: nobody misses it."""

    elections: list[_Election] = field(default_factory=list)
    pending: set[int] = field(default_factory=set)
    reigns: list[Reign] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    unreached: dict[int, set[int]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)

    def held(self, log: Log, epoch: int | None = None) -> set[int]:
        """The records that are not lost with this log: those that it has or had, and those that were deleted, up to its
        end; up to where it began the epoch that it leads, for it may have written to itself since."""
        end = next((start for of, start in log.entries if of == epoch), log.end)
        return {*log.records, *(r for r in self.deleted if self.offsets.get(r, end) < end)}

    def _written_anew(self, log: Log) -> set[int]:
        """The deleted records that the log has others in place of: an offset is lost once."""
        deleted = ((r, self.offsets.get(r, -1)) for r in self.deleted.difference(log.records))
        return {r for r, offset in deleted if log.start <= offset < log.end}

    @property
    def waiting_for(self) -> int | None:
        """The winner of the last election, if no process of it has led yet."""
        last = self.elections[-1] if self.elections else None
        return last.winner if last and last.had is None else None

    def promise(self, epoch: int, begin: int, records: list[int], held: Iterable[int] = ()) -> None:
        """Records from offset `begin` on came below the high watermark of a leader of the epoch. held: the log of
        waiting_for."""
        left = set(records)
        if self.waiting_for is not None:
            self.elections[-1].held |= left.intersection(held)
        self.offsets.update(zip(records, range(begin, begin + len(records)), strict=True))
        for election in self.elections:
            # Of a winner that never knew, what its log had at the end of its term says nothing of what came later.
            if election.epoch > epoch and election.led and election.had is not None:
                lost = left - election.had
                self._first_of(election, epoch).lost |= lost
                left -= lost
        # Those that an election counted as lost stay lost.
        left.difference_update(*(e.lost for e in self.elections))
        self.pending |= left

    def _first_of(self, election: _Election, epoch: int) -> _Election:
        """The election that replaced a leader of the epoch, if the winner was elected again before it knew of it."""
        first = election
        for earlier in reversed(self.elections[: self.elections.index(election)]):
            if earlier.led or earlier.winner != election.winner or earlier.epoch <= epoch:
                break
            first = earlier
        return first

    def wrote_unreached(self, epoch: int, log: Log) -> None:
        self.unreached.setdefault(epoch, set()).update(log.records)

    def process_ended(self, broker: int, log: Log) -> None:
        if self.waiting_for == broker:
            self.elections[-1].seen.update(log.records)

    def elected(self, offset: int, epoch: int, winner: int, is_member: bool, logs: Mapping[int, Log]) -> None:
        """The controller wrote an election. is_member: of the ISR or ELR; logs: of every replica, at this time."""
        nominal: set[int] = set()
        if self.elections:
            before = self.elections[-1]
            self._took_over(before, logs.get(before.winner, Log()), is_followed=True)
            nominal = before.seen.union(logs[before.winner].records if before.winner in logs else ())
        would_lose = {b: len(self.pending - self.held(log)) for b, log in logs.items()}
        last = [r for r in self.reigns if r.epoch < epoch]
        newest = [r for r in last if r.epoch == last[-1].epoch] if last else []
        for its, records in self.unreached.items():
            if its < epoch and all(its >= r.epoch for r in newest):
                nominal |= records
        at_election = Log(logs[winner].records) if winner in logs else Log()
        election = _Election(
            offset, epoch, winner, is_member, at_election, would_lose=would_lose, reigns=newest, nominal=nominal
        )
        self.elections.append(election)

    def leads(self, broker: int, epoch: int, log: Log) -> Reign:
        """A process begins to act as leader of an epoch. Nobody reads what it deleted before, as a follower."""
        self.deleted.update(log.records[: log.start])
        for election in self.elections:
            if election.epoch == epoch:
                election.led = True
                self._took_over(election, log)
        reign = Reign(broker, epoch, log)
        self.reigns.append(reign)
        self.reigns.sort(key=lambda r: r.epoch)
        return reign

    def _took_over(self, election: _Election, log: Log, is_followed: bool = False) -> None:
        if election.had is None:
            never_led = () if election.led else election.held.union(election.at_election.records)
            election.had = frozenset(self.held(log, election.epoch)).union(never_led)
            # What an earlier winner lacked is back with one that has it, and can be lost again. What was deleted is in
            # no log that has grown anew.
            back = set(log.records).union(never_led)
            for earlier in self.elections:
                if earlier is not election:
                    self.pending |= earlier.lost & back
            if is_followed and election.is_member and not election.led:
                return  # nobody missed anything: what its log lacks counts with the next election
            election.lost = self.pending - election.had
            self.pending -= election.lost | self._written_anew(log)

    def close(self, logs: Mapping[int, Log]) -> dict[int, Truth]:
        """By metadata offset of the election."""
        if self.elections:
            last = self.elections[-1]
            self._took_over(last, logs.get(last.winner, Log()))
        return {e.offset: self._truth(e) for e in self.elections}

    def _truth(self, election: _Election) -> Truth:
        had = election.had or frozenset()
        logs = [set(r.log.records) for r in election.reigns]
        unacked = len(logs[-1] - had) if logs else 0
        everything = election.lost.union(election.nominal, *logs)
        return Truth(
            lost=len(election.lost),
            first=min((self.offsets[r] for r in election.lost), default=None),
            would_lose={**election.would_lose, election.winner: len(election.lost)},
            unacked=unacked,
            unacked_most=len(everything - had),
            log_start=max((r.log.start for r in election.reigns), default=0),
        )
