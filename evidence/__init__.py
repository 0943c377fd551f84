"""Read captured bytes and text into Arrow tables. Imports neither Spark nor Delta; opens evidence read-only."""
