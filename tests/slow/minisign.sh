#!/usr/bin/env bash
# Check that there is minisign for tests/slow/test_minisign.py; install it if it is missing and that is possible: Debian, as root.
set -euo pipefail

command -v minisign >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "make test-slow needs minisign. Install it (Debian: apt-get install minisign)." >&2
  exit 1
fi
{ apt-get update -q && apt-get install -q -y --no-install-recommends minisign; } >&2
command -v minisign >/dev/null
