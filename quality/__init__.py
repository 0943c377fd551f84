"""What tables are and must hold: checks, suites, what runs them, and Data Docs. Knows DataFrames, not the pipeline."""
