-- Ranges of the offsets of metadata records, first to last, those of uncommitted records apart. A bit for each offset of
-- a block of 64: sorting all offsets would take ten times as long, and more memory than there is.
with blocks as materialized (
    select r.offset >> 6 as block, commit_state is not distinct from 'uncommitted' as uncommitted, min(r.offset) as first, max(r.offset) as last,
        bit_or(1::ubigint << (r.offset & 63)) as bits
    from metadata_records r
    where r.offset is not null
    group by block, uncommitted
), pieces as (
    select first, last, uncommitted from blocks where bit_count(bits) = last - first + 1
    union all
    select block * 64 + bit, block * 64 + bit, uncommitted
    from blocks, range(64) bits_of(bit)
    where bit_count(bits) <> last - first + 1 and (bits >> bit) & 1 = 1
), following as (
    select *, first is distinct from 1 + lag(last) over (partition by uncommitted order by first) as begins from pieces
), numbered as (
    select *, sum(begins::int) over (partition by uncommitted order by first rows unbounded preceding) as stretch from following
)
select min(first) as first, max(last) as last, uncommitted from numbered group by uncommitted, stretch
