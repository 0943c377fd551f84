"""Report: write what was found in each cluster as HTML, Markdown or JSON; an index page over several clusters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from urllib.parse import quote

from evidence.capture.remote import Location, Remote
from jobs.console.options import PageFormat
from jobs.incident.document import load_answer
from jobs.incident.lookup import ALL, Focus
from jobs.lake.integrity import input_fingerprint, made_from
from jobs.lake.lake import Lake
from jobs.lake.storage import first_bytes, shown, within, write_whole
from jobs.report.load import TABLES_SHOWN, load_report
from jobs.report.page import HEAD_BYTES, fingerprint_in, render_index, render_report
from jobs.report.rows import Row
from jobs.report.texts import as_json, as_postmortem, as_ticket, document_of

# Raise this when a code change changes the page.
PAGE_VERSION = 20


# Where it is written in the lake, unless another file is named. Markdown is a ticket.
_FILES = {"html": "report.html", "json": "report.json", "postmortem": "postmortem.md"}


def _rendered(lake: Lake, form: PageFormat, report: Row) -> str:
    if form in ("html", "json"):
        return render_report(report) if form == "html" else as_json(report)
    document = document_of(report, page_in(lake, report["cluster_id"]))
    return as_postmortem(document, report["causes"]) if form == "postmortem" else as_ticket(document)


def page_in(lake: Lake, cluster: str) -> str | None:
    """Where the page of a cluster is in its lake; None without one."""
    page = page_of(report_in(lake), cluster, lake.clusters())
    return shown(page) if fingerprint_in(first_bytes(page, HEAD_BYTES)) else None


def write_report(
    lake: Lake,
    cluster: str,
    output: Location,
    progress: Callable[[str], None],
    form: PageFormat = "html",
    focus: Focus = ALL,
    document: Row | None = None,
) -> str:
    """Write one cluster's report to `output`; a page, unless it is already there for the current tables. Returns where
    it is. document: its verdict, whose answer and plan the report has if the tables are still the same. Errors:
    KraftForensicsError if it cannot be written."""
    inputs = _inputs(lake, cluster, focus)
    if form == "html" and fingerprint_in(first_bytes(output, HEAD_BYTES)) == inputs:
        progress(f"{cluster}: the report is up to date")
        return shown(output)
    progress(f"{cluster}: writing the report")
    known = document if document and document["made_from"] == made_from(lake, cluster) else None
    # Completely or not at all: an incomplete page would have the fingerprint of a complete one.
    write_whole(output, _rendered(lake, form, load_report(lake, cluster, inputs, focus, known)))
    return shown(output)


def report_texts(lake: Lake, form: PageFormat, focus: Focus = ALL) -> Iterator[str]:
    """The report of each cluster, one after the other."""
    for cluster in lake.clusters():
        yield _rendered(lake, form, load_report(lake, cluster, _inputs(lake, cluster, focus), focus))


def _inputs(lake: Lake, cluster: str, focus: Focus) -> str:
    identity = astuple(focus) if focus.narrows else ()
    return input_fingerprint(lake, cluster, TABLES_SHOWN, (cluster, PAGE_VERSION, *identity))


def write_pages(
    lake: Lake,
    clusters: Sequence[str],
    output: Location | None,
    progress: Callable[[str], None],
    form: PageFormat = "html",
    focus: Focus = ALL,
    documents: Mapping[str, Row] | None = None,
) -> list[str]:
    """Write the report of each cluster, and at `output` (None: in the lake) the index page if there are several.
    Returns their places. documents: as of `write_report`, by cluster. Errors: as there."""
    output = output or report_in(lake, form, focus)
    files = {cluster: page_of(output, cluster, clusters) for cluster in clusters}
    known = documents or {}
    pages = [write_report(lake, c, file, progress, form, focus, known.get(c)) for c, file in files.items()]
    if len(clusters) > 1 and form == "html":
        answers = [
            (cluster, str(file).rpartition("/")[2], load_answer(lake, cluster, focus))
            for cluster, file in files.items()
        ]
        write_whole(output, render_index(answers, focus))
        pages.insert(0, shown(output))
    return pages


def report_in(lake: Lake, form: PageFormat = "html", focus: Focus = ALL) -> Location:
    """The file that is written unless another is named. A narrowed report never replaces the whole one."""
    stem, dot, kind = _FILES.get(form, "report.md").partition(".")
    return within(lake.root, f"{stem}{'-narrowed' if focus.narrows else ''}{dot}{kind}")


def page_of(output: Location, cluster: str, clusters: Sequence[str]) -> Location:
    """The file of a cluster. With several clusters, its name has the cluster id."""
    return output if len(clusters) == 1 else file_of(output, cluster)


def file_of(output: Location, cluster: str) -> Location:
    """A file beside `output` whose name has the cluster id, quoted since files name it."""
    suffix = f"-{quote(cluster, safe='')}"
    if isinstance(output, Remote):
        stem, dot, kind = output.url.rpartition(".")
        return Remote(f"{stem}{suffix}{dot}{kind}")
    return output.with_name(f"{output.stem}{suffix}{output.suffix}")
