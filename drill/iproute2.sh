#!/usr/bin/env bash
# Print where `ip` is, for drills that cut links between nodes; install it if it is missing and that is possible: Debian, as
# root. Without it those drills are refused, and the others are played.
set -euo pipefail

command -v ip && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "drills that cut the network need root and \`ip\` (Debian: apt-get install iproute2)" >&2
  exit 0
fi
{ apt-get update -q && apt-get install -q -y --no-install-recommends iproute2; } >&2
command -v ip
