"""Captured bytes and text in, Arrow tables out. Pure: imports neither Spark nor Delta, and opens evidence read-only."""
