"""The application that spark-submit runs: the command line, in the job's own Python."""

from jobs.cli import main

main()
