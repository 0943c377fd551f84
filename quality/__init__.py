"""Great Expectations: suites, the checkpoint that runs them, Data Docs. Knows DataFrames, not the pipeline."""
