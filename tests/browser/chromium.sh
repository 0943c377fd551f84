#!/usr/bin/env bash
# Print where Chromium is, for tests/browser; install it if it is missing and that is possible: Debian, as root.
set -euo pipefail

found() { for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
  if [ -n "$name" ] && command -v "$name"; then return 0; fi
done; return 1; }

found && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "make test-browser needs Chromium. Install it (Debian: apt-get install chromium), or name it: CHROMIUM=/path" >&2
  exit 1
fi
{ apt-get update -q && apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } >&2
found
