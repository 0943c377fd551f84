"""The stages that need no JVM, timed on a log of the user: `kraft-forensics bench`. tests/bench has `make bench`."""
