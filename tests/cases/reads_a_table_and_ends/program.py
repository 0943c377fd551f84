"""Read the table of the lake that is named, and end: the last read is the last thing that this process does."""

import sys
from pathlib import Path

from jobs.lake.lake import Lake

lake = Lake(Path(sys.argv[1]))
cluster = lake.clusters()[0]
lake.captures(cluster)
lake.count("evidence_files", cluster)
lake.rows("evidence_files", cluster)
