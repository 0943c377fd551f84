"""Texts of the incident report: bounds, names of policies (templates/words.toml), a finding's reason grouped by nature,
commands to copy, and what its words mean (templates/glossary.txt: a word, its meaning in one or two plain sentences,
and where docs/ has more). Nothing here escapes HTML: jinja2's autoescape does."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from operator import itemgetter

from jobs.console.output import utc
from jobs.incident.lookup import Focus
from jobs.report import filters
from jobs.report.rows import MAX_STATEMENTS, WORDS, Row
from jobs.views.catalogue import literal
from replay.arrow.runs import groups
from replay.findings.statements import SENTENCES, prose
from replay.whatif.policies import BEFORE_ELR

POLICY_NAMES: dict[str, str] = WORDS["policies"]


def anchor(row: Row) -> str:
    """The id of a finding's place on the page."""
    return f"f-{row['finding_id']}"


def reason_by_nature(row: Row) -> list[Row]:
    """A finding's reason by nature, facts first: rows {nature, label, tag, sentences}. Empty if it has none or has a
    statement that this release does not know: show its `explanation` instead."""
    reason = row["reason"] or []
    if any(statement["code"] not in SENTENCES or statement["nature"] not in WORDS["natures"] for statement in reason):
        return []
    found = groups(reason, itemgetter("nature"))
    return [
        {"nature": nature, "label": label, "tag": tag, "sentences": _sentences(found[nature], row["finding_id"])}
        for nature, (label, tag) in WORDS["natures"].items()
        if nature in found
    ]


def _sentences(statements: list[Row], finding_id: str) -> list[str]:
    shown = [filters.visible(unlabelled(statement)) for statement in statements[:MAX_STATEMENTS]]
    if more := len(statements) - len(shown):
        shown.append(f"{more} more are not shown. All: kraft-forensics explain {filters.visible(finding_id)}")
    return shown


def unlabelled(statement: Row) -> str:
    """A statement's sentence below a heading that names its nature."""
    text = prose([statement])
    rest = text.removeprefix("Prediction: ")
    return text if rest == text else rest[:1].upper() + rest[1:]


def policy_name(policy: str | None) -> str:
    """The display name of a policy; the policy itself if it has none."""
    if policy is None or policy in POLICY_NAMES:
        return filters.UNKNOWN if policy is None else POLICY_NAMES[policy]
    for pattern, name in WORDS["policy_patterns"].items():
        if match := re.fullmatch(pattern, policy, re.ASCII):
            return str(name.format(match[1].replace("_", ", ")))
    return filters.visible(policy)


def policy_family(policy: str | None) -> str:
    """The key of a policy's family in words.toml."""
    name = policy or ""
    if name.startswith(("profile_", BEFORE_ELR)):
        return "shipped"
    return "configured" if name.startswith("min_isr_") else "proposed"


def by_family(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """(title of a family of policies, its rows), in the order of words.toml, then by name."""
    rank = {policy: number for number, policy in enumerate(POLICY_NAMES)}
    ranked = sorted(rows, key=lambda row: (rank.get(row["policy"], len(rank)), row["policy"] or ""))
    families = groups(ranked, lambda row: policy_family(row["policy"]))
    return [(title, families[family]) for family, title in WORDS["families"].items() if family in families]


def folded(step: Row) -> list[tuple[str, str]]:
    """(label, text) of what is behind a step of a plan: what is recorded, assumed and predicted stay apart."""
    found = [(label, text) for label, name in WORDS["natures_of_step"].items() for text in step[name]]
    if step["places"]:
        more = step["place_count"] - len(step["places"])
        found.append(("Partitions", ", ".join([*step["places"], *([f"{more} more"] if more else [])])))
    return [*found, ("Rule", f"{step['rule']} ({step['see']})")]


def span_text(milliseconds: int | None, at_least: bool = False) -> str:
    """A duration; "not known" if it is null or negative (the log's clock ran backwards)."""
    text = "" if milliseconds is None else filters.duration_text(0, milliseconds)
    return f"≥ {text}" if text and at_least else text or filters.UNKNOWN


def focus_text(focus: Focus) -> str:
    """What a report is narrowed to; empty if it is not."""
    parts = [] if focus.topic is None else [f"topic {filters.topic_text(focus.topic)}"]
    if focus.from_ms is not None or focus.to_ms is not None:
        first = "the start" if focus.from_ms is None else filters.utc_text(focus.from_ms)
        last = "the end" if focus.to_ms is None else filters.utc_text(focus.to_ms)
        parts.append(f"{first} to {last} UTC")
    return ", ".join(parts)


def list_command(section: str, cluster: str, total: int, focus: Focus) -> str:
    """The command that lists all findings of a section."""
    parts = ["kraft-forensics", "findings", "--section", section, "--cluster", cluster, "--limit", str(total)]
    if focus.topic is not None:
        parts += ["--topic", focus.topic]
    for option, time_ms in (("--since", focus.from_ms), ("--until", focus.to_ms)):
        if time_ms is not None:
            parts += [option, utc(time_ms)]
    return shlex.join(parts)


def table_command(table: str, cluster: str) -> str:
    """The command that prints a cluster's rows of a table."""
    return f"kraft-forensics sql {shlex.quote(f'select * from {table} where cluster_id = {literal(cluster)}')}"


_LINE = re.compile(r"^- \*\*(.+?)\*\*: (.+?)(?: \[More\]\(\S+\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the glossary and its meaning."""

    name: str
    meaning: str

    @property
    def anchor(self) -> str:
        """The id of its place: `min ISR` -> `term-min-isr`."""
        return "term-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


GLOSSARY = files("jobs.report.templates").joinpath("glossary.txt").read_text("utf-8")
TERMS = {found[1]: Term(*found.groups()) for found in _LINE.finditer(GLOSSARY)}
