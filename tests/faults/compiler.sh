#!/usr/bin/env bash
# Check that there is a C compiler for tests/faults/injector.c; install it if it is missing and that is possible: Debian, as root.
set -euo pipefail

command -v cc >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "make test-faults needs a C compiler. Install one (Debian: apt-get install gcc libc6-dev)." >&2
  exit 1
fi
{ apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev; } >&2
command -v cc >/dev/null
