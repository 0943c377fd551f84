-- meaning: No two rows have the same {key}.
-- action: A file of the table was added twice, e.g. by a copy of another lake: ingest the captures into a new lake.
-- tables: every table
-- kind: validity; severity: error; scope: topic
-- key: {key}
select {key}, count(*) || ' rows' as why from {table} {twice} group by {key} having count(*) > 1
