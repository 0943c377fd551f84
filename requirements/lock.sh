#!/usr/bin/env bash
# Write the lock files: every package with its version and the SHA-256 of each of its files. Versions that a lock file has
# are kept where they fit; `--upgrade` takes the newest, `--upgrade-package NAME` those of one package.
set -euo pipefail
cd "$(dirname "$0")"

lock() {  # lock OUTPUT INPUT OPTION...
  local output=$1 input=$2
  shift 2
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
    --custom-compile-command "make lock" --output-file "$output" "$input" "$@"
}

lock build.txt build.in "$@"
lock dev.txt ../pyproject.toml --extra dev "$@"
lock run.txt ../pyproject.toml --extra s3 --constraint dev.txt
lock docs.txt docs.in "$@"
lock airflow.txt airflow.in "$@"
lock airflow-spark.txt airflow-spark.in --no-deps "$@"
lock tools.txt tools.in "$@"
lock fuzz.txt fuzz.in "$@"
