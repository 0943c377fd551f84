"""Coverage-guided fuzzing: `make fuzz-coverage`. Atheris mutates small files and keeps those that reach new code.

    python -m tests.fuzz.guided --seconds 240            # every target, one after another
    python -m tests.fuzz.instrumented texts FILE         # one input again, with its traceback

Run it with .venv-fuzz. The property is that of `make fuzz` (tests/fuzz/reading.py). What libFuzzer keeps is in
.fuzz/<target>/, and the next run begins with it; an input that fails is .fuzz/<target>-crash-<digest>.
"""

import argparse
import re
import subprocess
import sys
from functools import cache

from tests.fuzz import corpus
from tests.fuzz.corpus import Seed
from tests.fuzz.mutate import ends, with_good_crcs
from tests.support.paths import ROOT

KEPT = ROOT / ".fuzz"
TIMEOUT_S = 30
MEMORY_MB = 3072
MAX_BYTES = 3000  # of a file: small ones are read fast


# The first that a file's name matches whole is what it is.
_KINDS = {
    "logs": rf".*\.checkpoint|{re.escape(corpus.LOG)}",
    "node_logs": r".*broker_logs.*|(.*/)?(server|controller|state-change)(\.[^./]*)?",
    "manifests": r"capture\.(toml|json)",
    "dumps": r"text/.*|.*dump-log.*",
    "archives": r"c\..*",
    "texts": ".*",
}
# `decoder` sees logs with right CRCs, so that the bytes of records are what is damaged; `framing` as they are.
TARGETS = {
    "decoder": "logs",
    "framing": "logs",
    **{name: name for name in ("dumps", "texts", "node_logs", "manifests")},
}


def _seeds_of(target: str) -> list[Seed]:
    kinds = ((seed, next(kind for kind, name in _KINDS.items() if re.fullmatch(name, seed.name))) for seed in _seeds())
    return [seed for seed, kind in kinds if kind == TARGETS[target]]


_seeds = cache(corpus.build)


@cache
def names(target: str) -> list[str]:
    """The names that files of a target may have. The first byte of an input is the number of its file's name."""
    return sorted({seed.name for seed in _seeds_of(target)})


def file_of(target: str, data: bytes) -> Seed:
    """The file that an input stands for."""
    number, content = data[0] if data else 0, data[1:]
    name = names(target)[number % len(names(target))]
    return Seed(name, with_good_crcs(content) if target == "decoder" else content)


def inputs(target: str) -> list[bytes]:
    """What a target begins with: of each seed a piece; of a log all pieces."""
    found = []
    for seed in _seeds_of(target):
        pieces = _batches(seed.data) if TARGETS[target] == "logs" else [seed.data[:MAX_BYTES]]
        found += [bytes([names(target).index(seed.name)]) + piece for piece in pieces]
    return found


def _batches(data: bytes) -> list[bytes]:
    """A log in pieces of at least one batch; those that are too large are left out."""
    pieces, start, end = [], 0, 0
    for following in ends(data):
        if following - start > MAX_BYTES:
            pieces.append(data[start:end])
            start = end
        end = following
    return [piece for piece in [*pieces, data[start:end]] if 0 < len(piece) <= MAX_BYTES]


def run(target: str, seconds: int) -> bool:
    """Run one target in a process of its own; whether no input failed."""
    kept = KEPT / target
    kept.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs(target)):
        (kept / f"seed-{number}").write_bytes(data)
    options = [f"-max_total_time={seconds}", f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}"]
    options += [
        f"-max_len={MAX_BYTES + 1}",
        f"-artifact_prefix={KEPT}/{target}-",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    done = subprocess.run([sys.executable, "-m", "tests.fuzz.instrumented", target, *options, str(kept)], cwd=ROOT)
    print(
        f"{target}: {'no input failed' if done.returncode == 0 else f'failed (exit code {done.returncode})'}",
        flush=True,
    )
    return done.returncode == 0


def main() -> int:
    """Run the targets; 1 if an input failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=240, help="for each target")
    parser.add_argument("--only", nargs="*", choices=TARGETS, help="these targets")
    given = parser.parse_args()
    failed = [target for target in given.only or TARGETS if not run(target, given.seconds)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
