-- meaning: {rules}
-- action: The row was not written by this release, or was changed: build the table again (derived tables), or ingest
--   the capture into a new lake (evidence).
-- tables: every table
-- kind: validity; severity: error; scope: row
-- key: {key}
select {key}, concat_ws('; ', {why}) as why from {table} where {broken}
