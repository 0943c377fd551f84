"""Run a command, and say how it ended and what it needed: `python -m tests.faults.measured WORD ...` prints JSON.

It is a process of its own, since what the system counts of a child includes what its parent held when it was made.
"""

import json
import resource
import subprocess
import sys


def main() -> None:
    done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"code": done.returncode, "said": done.stderr.decode(errors="replace")}
    print(json.dumps({**found, "peak_mib": used.ru_maxrss >> 10, "cpu_s": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()
