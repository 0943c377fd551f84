"""The templates of the page and of the texts, with the filters and functions that they share."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from jobs.console.output import printable, utc
from jobs.console.text import known_width, range_text, wrapped
from jobs.report import filters, rows, words
from jobs.views.catalogue import literal
from replay.incident.answer import deletion, proven_text, topic_text, undecided_text
from replay.incident.causes import labelled
from replay.loss.verdicts import likely_text
from replay.plan.step import count, is_legal, moment, place

_MOST_COMMANDS = 10  # of a step


def rendered(template: str, write: Callable[[object], str] | None = None, /, **values: Any) -> str:
    """What a template makes of the values. write: as of `environment`."""
    return environment(write).get_template(template).render(values)


@cache
def environment(write: Callable[[object], str] | None = None) -> Environment:
    """The templates. write: how a value becomes text, markup and whole numbers apart; None: escaped for HTML."""
    made = Environment(
        loader=PackageLoader("jobs.report"),
        bytecode_cache=_Compiled(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=write and (lambda value: value if isinstance(value, int | Markup) else Markup(write(value))),
    )
    made.filters |= {
        name.removesuffix("_text"): function
        for name, function in vars(filters).items()
        if getattr(function, "__module__", "") == filters.__name__
    }
    made.filters |= {
        "topic_answer": topic_text,
        "proven_answer": proven_text,
        "undecided_answer": undecided_text,
        "iso": utc,
        "wrap": _folded,
        "second": moment,
        "likely": likely_text,
        "place": place,
        "policy": words.policy_name,
        "verdict": rows.verdict_of,
        "anchor": words.anchor,
        "by_nature": words.reason_by_nature,
        "labelled": labelled,
        "unlabelled": words.unlabelled,
        "deletion": deletion,
        "literal": literal,
        "quote": shlex.quote,
    }
    made.globals |= {
        "count": count,
        "duration": filters.duration_text,
        "span_text": words.span_text,
        "broker_state": rows.broker_state,
        "restarts": rows.restarts,
        "folded": words.folded,
        "range_text": range_text,
        "most_commands": _MOST_COMMANDS,
        "exposure_names": rows.EXPOSURE_NAMES,
        "is_legal_topic": is_legal,
        "glossary": words.TERMS,
        "table_command": words.table_command,
    }
    return made


def for_terminal(value: object) -> str:
    """How a value is written on a terminal, which a captured name must not control."""
    return printable(str(value))


def prose(template: str, **values: Any) -> str:
    """What a template of lines to read makes of the values; on a terminal folded to its width."""
    text = rendered(template, for_terminal, **values)
    if known_width() is None:
        return text
    lines = ((" " * (len(line) - len(line.lstrip())), line.strip()) for line in text.splitlines())
    return "".join(f"{row}\n" for indent, line in lines for row in wrapped(line, indent, f"{indent}  ") or [""])


def _folded(text: str, first: str = "  ", indent: str = "  ") -> Markup:
    """Lines of prose, as `wrapped`, for a terminal."""
    return Markup("\n".join(map(printable, wrapped(str(text), first, indent))))


def compile_page() -> None:
    """Compile the templates of the page, and keep that."""
    made = environment()
    for name in made.list_templates(filter_func=lambda name: name.endswith((".html.j2", ".css"))):
        made.get_template(name)


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, kept beside them as Python keeps modules; made each time where that cannot be written."""

    def __init__(self) -> None:
        super().__init__(str(Path(__file__).parent / "templates" / "__pycache__"))

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
