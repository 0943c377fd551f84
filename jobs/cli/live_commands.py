"""Commands about a cluster that lives: `watch` reports what happens, `ahead` predicts what a step would do."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from evidence.limits import int32_of
from jobs.cli.capture_commands import SILENCE_S, named_nodes
from jobs.cli.lakes import lake_to_show
from jobs.cli.stage_commands import EXIT_FINDINGS
from jobs.console.log import WARNING, show_message
from jobs.console.options import DEFAULT_LAKE, DocumentFormat
from jobs.console.output import printable, say, utc


def watch(
    folders: list[Path] | None = None,
    node: list[str] | None = None,
    nodes: Path | None = None,
    via: str | None = None,
    into: Path = Path("watch"),
    hook: str | None = None,
    every: float = 2.0,
    once: bool = False,
    form: DocumentFormat = "table",
) -> None:
    """Follow metadata logs and report windows that open, elections from outside ISR and ELR, partitions one failure
    from loss and a changed plan, within seconds. Ends with Ctrl-C and goes on where it was.

    With --node it reads the logs of nodes itself: copies of them are in the folder `copies` of --into.
    """
    from jobs.collect.follow import Following
    from jobs.config.settings import load_settings
    from jobs.watch.stream import load_hook, watch, watch_nodes

    called = load_hook(hook) if hook else None
    targets, via = named_nodes(node, nodes, via)
    spark, tell = load_settings().spark, _teller(form, called, into)
    if targets:
        copies = (into / "copies").absolute()
        following = Following(targets, via, copies, every, SILENCE_S, say, lambda _: 0)
        watch_nodes(following, folders or (), into, spark, tell, once)
    elif folders:
        watch(folders, into, spark, tell, every, once)
    else:
        raise typer.BadParameter("name at least one folder with a metadata log, or --node")


def _teller(
    form: DocumentFormat, hook: Callable[[dict[str, Any]], object] | None, into: Path
) -> Callable[[dict[str, Any]], None]:
    def tell(alarm: dict[str, Any]) -> None:
        text = _line(alarm)
        typer.echo(json.dumps(alarm) if form == "json" else printable(text))
        if hook is not None:
            try:
                hook({**alarm, "event": "alarm", "cluster": alarm["cluster_id"], "lake": str(into), "text": text})
            except Exception as error:  # noqa: BLE001 whatever the hook's module raises: the watch goes on
                show_message(f"the hook failed: {type(error).__name__}: {error}", WARNING)

    return tell


def _line(alarm: dict[str, Any]) -> str:
    place = f" {alarm['topic']}-{alarm['partition']}" if alarm["topic"] is not None else ""
    marks = [word for word in (alarm["status"], alarm["commit_state"]) if word in ("withdrawn", "uncommitted")]
    mark = f" [{', '.join(marks)}]" if marks else ""
    return f"{utc(alarm['timestamp_ms'])} {alarm['kind']}{place} at {alarm['offset']}{mark}: {alarm['text']}"


def ahead(
    stop: list[str] | None = None,
    start: list[int] | None = None,
    setting: list[str] | None = None,
    topic: str | None = None,
    elect: list[str] | None = None,
    restart_all: bool = False,
    lake: Any = DEFAULT_LAKE,
    cluster: str | None = None,
    form: DocumentFormat = "table",
) -> None:
    """Predict what a step would do to the newest state, before you take it; exit code 3 if it is not safe. Several are
    taken in the order --set, --start, --elect, --stop."""
    from jobs.config.settings import load_settings
    from jobs.queries.ahead import ahead, parse_elect, parse_set, print_answer
    from replay.whatif.ahead import START, STOP, ClusterAction

    if topic is not None and not setting:
        raise typer.BadParameter("--topic belongs to --set")
    steps = [
        *(parse_set(text, topic) for text in setting or ()),
        *(ClusterAction(START, broker) for broker in start or ()),
        *(parse_elect(text) for text in elect or ()),
        *(ClusterAction(STOP, broker) for broker in _brokers(stop or ())),
    ]
    if not steps and not restart_all:
        raise typer.BadParameter("name at least one step, e.g. --stop 3, or --restart-all")
    files = lake_to_show(lake, cluster)
    answer = ahead(files, files.one_cluster(cluster), steps, restart_all, load_settings())
    print_answer(answer, form)
    if not answer.safe:
        raise typer.Exit(EXIT_FINDINGS)


def _brokers(lists: Sequence[str]) -> list[int]:
    found = [int32_of(entry.strip()) for text in lists for entry in text.split(",")]
    if None in found:
        raise typer.BadParameter(f"{','.join(lists)!r} is not a list of broker ids, e.g. 1,2,3")
    return [broker for broker in found if broker is not None]
