"""Options that name live nodes: of `collect` and `watch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from jobs.collect.targets import Target

NodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="ID=WHERE",
        help="A node: 1=ssh:user@host, 2=kubectl:namespace/pod/container, 3=docker:container, 4=local:PATH, "
        "5=disk:PATH (its disk, mounted here), 6=via:host (with --via). A path on the node may follow, after a "
        "colon: 1=ssh:host:/etc/kafka. Repeatable.",
    ),
]
NodesOption = Annotated[Path | None, typer.Option("--nodes", help="A TOML file of nodes (docs/collect.md).")]
ViaOption = Annotated[
    str | None, typer.Option("--via", help="Your own command for via: nodes, e.g. 'ssh -p 2222 {host} sudo -n'.")
]


def named_nodes(
    node: list[str] | None, nodes: Path | None, via: str | None, **places: Any
) -> tuple[list[Target], str | None]:
    """(the nodes that the options name, the command of `via:` nodes). places: where files are on every --node.
    Errors: CollectError."""
    from jobs.collect.targets import parse_node, places_of, read_nodes

    listed, via_of_file = read_nodes(nodes) if nodes else ([], None)
    everywhere = places_of(**places)
    return [*listed, *(parse_node(text, everywhere) for text in node or ())], via or via_of_file
