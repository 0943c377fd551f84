"""All checks, table by table."""
