-- meaning: In the surviving log each batch begins where the one before ends, unless a finding or snapshot says why
--   not.
-- action: Rows of log_batches are missing: ingest the capture of every controller. Until then the history is not
--   whole.
-- kind: completeness; severity: error; scope: cluster
-- key: epoch, base_offset
with batches as (
    select epoch, base_offset, max(last_offset) over before as reached
    from log_batches
    where commit_state is distinct from 'uncommitted'
    window before as (order by base_offset, epoch rows between unbounded preceding and 1 preceding)
)
select *, 'the one before ends at ' || reached as why
from batches
where base_offset > reached + 1::hugeint
    and not exists (from holes where reached + 1::hugeint between first and last)
