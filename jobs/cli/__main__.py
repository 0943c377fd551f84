"""`python -m jobs.cli` is the command line."""

from jobs.cli import main

main()
