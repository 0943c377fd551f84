"""Tables that fit: columns are left out and named, names are shortened in the middle, no word is broken."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from jobs.console.output import print_table
from jobs.console.text import shortened, wrapped

ROW = {
    "topic": "a-topic-with-a-rather-long-name.of.some.team.v2",
    "since": "2026-11-21T00:39:25.233Z",
    "offset": 123456789012,
    "why": "the log has a hole, and nothing that was captured shows what was in it",
}


def printed(capsys: pytest.CaptureFixture[str], columns: int, rows: list[dict[str, Any]], **more: Any) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        print_table(list(rows[0]), rows, **more)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("columns", [20, 30, 40, 60, 80, 120, 200, 400])
@pytest.mark.parametrize("name", ["orders", "x" * 249, "订单" * 40, "one two three"])
def test_no_line_is_wider_than_the_terminal(capsys: pytest.CaptureFixture[str], columns: int, name: str) -> None:
    lines = printed(capsys, columns, [ROW, ROW | {"topic": name}], title="2 rows of a table with a rather long title")
    assert max(map(cell_len, lines)) <= columns


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_no_word_is_broken_and_no_number_shortened(capsys: pytest.CaptureFixture[str], columns: int) -> None:
    words = {word for value in ROW.values() for word in str(value).split()}
    lines = printed(capsys, columns, [ROW])
    shown = lines[2 : lines.index("")] if "" in lines else lines[2:]
    assert shown
    for word in " ".join(shown).split():
        assert word in words or "…" in word
        assert not word.replace("…", "").isdigit() or "…" not in word


def test_columns_are_left_out_in_the_given_order_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, 50, [ROW], drop=("why", "offset"))
    assert lines[0].split() == ["topic", "since"]
    assert lines[-2:] == ["Too narrow for: offset, why. To see them: --format", "json, or a wider terminal."]
    assert lines[2].split() == ["a-topic-with…ome.team.v2", "2026-11-21T00:39:25.233Z"]


def test_a_wide_terminal_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, 200, [ROW])
    assert len(lines) == 3
    assert all(str(value) in lines[2] for value in ROW.values())


def test_names_are_shortened_in_the_middle() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abcdefghij", 1) == "…"
    assert cell_len(shortened("订单订单订单", 7)) <= 7


def test_prose_is_broken_at_spaces_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = wrapped(f"broker-3 cut its log of {'t' * 60}-0 back", "  ", "    ")
    assert lines == ["  broker-3 cut its log of", f"    {'t' * 18}…{'t' * 15}-0", "    back"]
