"""Everything that uses Spark or the disk: session, settings, tables, stages, queries and the command line."""
