"""Lakes of captures after the stages that judge."""

from pathlib import Path

from jobs.lake.lake import Lake
from jobs.pipeline import Pipeline


def judged_lake(root: Path, *captures: Path) -> Lake:
    """A lake in this folder, of which all clusters were replayed and judged. Nothing of it was checked or reported."""
    pipeline = Pipeline(root, captures)
    pipeline.ingest()
    pipeline.replay()
    pipeline.detect()
    return pipeline.lake
