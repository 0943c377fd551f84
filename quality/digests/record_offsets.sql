-- Ranges of the offsets of metadata records, first to last, those of uncommitted records apart.
with numbered as (
    select r.offset, commit_state is not distinct from 'uncommitted' as uncommitted,
        r.offset::hugeint - dense_rank() over (partition by uncommitted order by r.offset) as stretch
    from metadata_records r
    where r.offset is not null
)
select min(n.offset) as first, max(n.offset) as last, uncommitted from numbered n group by uncommitted, stretch
