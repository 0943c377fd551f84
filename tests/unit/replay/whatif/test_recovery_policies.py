"""What KIP-966's unclean recovery would have picked."""

import pytest

from replay.loss.judged_windows import Situation
from replay.offsets.evidence import Replica
from replay.whatif.recovery_policies import AGGRESSIVE, ALL_REPLICAS, BALANCED, LAST_LEADER, NONE, POLICIES, pick
from tests.support.window_table import beside, lines_of

SEEN = "seen 1:4/100,2:5/80,3:5/90"


def situation(*known: str) -> Situation:
    """known: items of the table beside this file."""
    words = dict(item.split(" ", 1) for item in known)
    lists = {"replicas": "1,2,3", "isr": "", "elr": "", "alive": "1,2,3"}
    given = {name: [int(b) for b in words.get(name, usual).split(",") if b] for name, usual in lists.items()}
    seen = {}
    for broker, epoch, end in (row.replace("/", ":").split(":") for row in words.get("seen", "").split(",") if row):
        seen[int(broker)] = Replica(int(broker), int(end), None if epoch == "?" else int(epoch), {})
    waited_for = int(words["waited"]) if "waited" in words else None
    return Situation(**given, waited_for=waited_for, recorded=int(words.get("recorded", 1)), last_seen=seen)


@pytest.mark.parametrize(("story", "answer"), lines_of(beside(__file__)))
def test_pick(story: list[str], answer: str) -> None:
    for policy in story[0].split(","):
        found = pick(policy if policy in POLICIES else f"unclean_recovery_{policy}", situation(*story[1:]))
        assert f"{found.outcome} {found.leader}" == answer, policy
        assert found.explanation


BEST = "broker 3 has the highest last epoch 5 and log end 90"


@pytest.mark.parametrize(
    ("policy", "known", "text"),
    [
        (AGGRESSIVE, [SEEN], f"{BEST} of the replicas alive"),
        (BALANCED, [SEEN, "waited 3"], f"{BEST} of the replicas alive"),
        (ALL_REPLICAS, [SEEN], f"{BEST}, had every replica answered"),
        (AGGRESSIVE, ["isr 2"], "broker 2 of the ISR is alive: no unclean recovery is needed"),
        (AGGRESSIVE, ["alive 2"], "broker 2 is the only candidate of the replicas alive"),
        (AGGRESSIVE, ["alive "], "no replica is alive"),
        (BALANCED, [], "waits for the last known leader to answer"),
        (BALANCED, ["waited 7"], "waits for broker 7, the last known leader, to answer"),
        (NONE, [SEEN], "waits for an administrator"),
        (LAST_LEADER, [SEEN], "no last leader is known"),
        (LAST_LEADER, [SEEN, "waited 1"], "broker 1 is the last known leader and is alive"),
        (LAST_LEADER, [SEEN, "waited 9"], "waits for broker 9, the last known leader, to answer"),
    ],
)
def test_the_explanations(policy: str, known: list[str], text: str) -> None:
    assert pick(policy, situation(*known)).explanation == text


def test_the_answer_says_who_is_missing() -> None:
    assert "broker(s) 2, 3" in pick(ALL_REPLICAS, situation("seen 1:5/90")).explanation
    assert "broker(s) 3" in pick(BALANCED, situation(SEEN, "waited 2", "alive 1,2", "elr 3")).explanation
    assert "broker(s) 3" in pick(NONE, situation("elr 3", "alive 1,2")).explanation
