"""The list of checks in the docs is up to date; names are those of the packages that make the rows."""

from evidence.wire.batches import CODECS
from jobs.lake.tables import TABLES
from quality.check import checks, fingerprint, values
from replay.cluster import branches
from replay.findings.kinds import FAULTS, KINDS
from replay.invariants.catalogue import INVARIANTS
from tests.support.paths import ROOT
from tests.support.quality_page import page


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "quality-checks.md").read_text(encoding="utf-8") == page()


def test_every_table_has_checks_and_its_own_key() -> None:
    assert {name: own.key for name, own in values().items()} == {name: [*table.key] for name, table in TABLES.items()}
    assert {check.table for check in checks()} == set(TABLES)
    assert len({check.full_name for check in checks()}) == len(checks())
    assert len({fingerprint(table) for table in TABLES}) == len(TABLES)


def test_tables_that_are_checked_by_topic_are_cut_by_topics() -> None:
    assert {name for name, own in values().items() if own.by_topic} == {
        name for name, table in TABLES.items() if table.topics == ("topic_id",)
    }


def test_names_are_those_of_the_packages_that_write_them() -> None:
    own = values()
    commit_states, severities = own["log_batches"].one_of["commit_state"], own["findings"].one_of["severity"]
    assert {branches.COMMITTED, branches.UNCOMMITTED, branches.UNKNOWN} == set(commit_states)
    assert {severity for kind in KINDS.values() for severity in kind.severities} <= set(severities)
    assert {invariant.severity for invariant in INVARIANTS.values()} <= set(severities)
    assert {verdict for verdict, _ in FAULTS.values()} <= set(own["findings"].one_of["verdict"])
    assert set(CODECS) == set(own["log_batches"].one_of["codec"])
