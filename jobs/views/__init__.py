"""Views on the lake's tables, for people who ask questions: SQL files, and what runs them in Spark and in DuckDB."""
