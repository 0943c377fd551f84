"""Execute examples/incident.ipynb on a lake and write it, with its outputs, as a page of the site.

`LAKE=.site/lake python -m docs_site.notebook .site/pages`. A cell that fails, fails the build: the last line
names it. Runs in .venv-docs: it needs nbconvert, and what the notebook imports.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import MarkdownExporter
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "incident.ipynb"
CELL_TIMEOUT_S = 120


def write_notebook(folder: Path) -> None:
    """incident.md, and its pictures in incident/."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as sockets:  # not ports, which other users of the machine could reach
        config = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", config=config)
        try:
            client.execute()
        except CellExecutionError as error:  # its own text is the stack of every library, in colours
            failed = next(c.id for c in notebook.cells if "error" in {o.output_type for o in c.get("outputs", [])})
            raise SystemExit(f"{NOTEBOOK.name}: cell {failed}: {error.ename}: {error.evalue}") from None
    text, resources = MarkdownExporter().from_notebook_node(
        notebook, resources={"unique_key": "incident", "output_files_dir": "incident"}
    )
    for name, data in resources["outputs"].items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    # pandas puts a style sheet into each table; the site has its own.
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"!\[png\]", "![Plot]", text).replace("(../docs/", "(")
    (folder / "incident.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_notebook(Path(sys.argv[1]))
