"""docs/quality.md has every expectation and planted defect; names are those of the packages that make the rows."""

from __future__ import annotations

import pyarrow as pa

from evidence.wire.batches import CODECS
from jobs.lake.tables import TABLES
from quality.catalogue import CHECKS, fingerprint
from quality.checks import specs
from quality.checks.specs import SPECS
from quality.digests import DIGESTS, Digest
from quality.run import with_codes
from replay.cluster import branches
from replay.findings.kinds import FAULTS, KINDS
from replay.invariants.catalogue import INVARIANTS
from tests.support.paths import ROOT
from tests.support.quality_page import page


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "quality.md").read_text(encoding="utf-8") == page()


def test_every_table_has_a_suite_with_its_own_key() -> None:
    assert set(SPECS) == {check.table for check in CHECKS} == set(TABLES)
    assert {name: spec.key for name, spec in SPECS.items()} == {name: table.key for name, table in TABLES.items()}
    assert len({check.full_name for check in CHECKS}) == len(CHECKS)
    assert len({fingerprint(table) for table in TABLES}) == len(TABLES)


def test_checks_read_columns_that_there_are() -> None:
    for check in CHECKS:
        for table, columns in check.needs.items():
            schema = made_of(DIGESTS[table]) if table in DIGESTS else TABLES[table].schema
            for column, _, field in (path.partition(".") for path in columns):
                found = schema.field(column)
                assert not field or found.type.get_field_index(field) >= 0, check.full_name
            assert len(set(columns)) == len(columns), check.full_name


def made_of(digest: Digest) -> pa.Schema:
    fields = [TABLES[digest.table].schema.field(name) for name in digest.columns]
    return digest.of(with_codes(pa.schema(fields).empty_table())).schema


def test_names_are_those_of_the_packages_that_write_them() -> None:
    assert {branches.COMMITTED, branches.UNCOMMITTED, branches.UNKNOWN} == set(specs.COMMIT_STATES)
    assert {severity for kind in KINDS.values() for severity in kind.severities} <= set(specs.SEVERITIES)
    assert {invariant.severity for invariant in INVARIANTS.values()} <= set(specs.SEVERITIES)
    assert {verdict for verdict, _ in FAULTS.values()} <= set(specs.VERDICTS)
    assert set(CODECS) == set(SPECS["log_batches"].one_of["codec"])
