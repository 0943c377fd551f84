"""Print the digests of lakes' tables as JSON, in the job's own Python: `python digests.py LAKE...`"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from jobs.lake.lake import Lake
from tests.support.digests import digests

if __name__ == "__main__":
    print(json.dumps([digests(Lake(Path(folder))) for folder in sys.argv[1:]]))
