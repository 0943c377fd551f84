"""The entry point. It imports little, so that a signal is answered from the first moment on (jobs/console/first.py);
the commands are in jobs/cli/commands.py."""

import gc

from jobs.console.first import answer_signals


def main() -> None:
    """Run the command that the arguments name."""
    answer_signals()
    # By default Python's collector looks at all modules and rows that stay again and again.
    gc.set_threshold(100_000, 20, 100)
    from jobs.cli import commands  # takes a third of a second

    commands.main()
