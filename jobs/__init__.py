"""Everything that touches Spark or disk: session, settings, tables, one module a job, the command line."""
