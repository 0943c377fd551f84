-- Rows that a table (stored) and the same rows, derived from bytes again, do not have in common: $most of each kind and one
-- more, with their number. {key}: what identifies a row; of a record of a text that does not say where it was in the log,
-- its place in the text ({place}), too. {columns}: what is compared.
with ours as (
    select {key} as key, {place} as place, path, capture, sha256, hash({columns}) as digest from stored
),
theirs as (select {key} as key, {place} as place, path, hash({columns}) as digest from derived where sha256 is not null),
found as (
    select coalesce(ours.key, theirs.key) as key, coalesce(ours.path, theirs.path) as path,
        case when theirs.digest is null then 'row_not_in_bytes' when ours.digest is null then 'row_missing'
            else 'row_differs' end as what
    from ours full join theirs on ours.key = theirs.key and ours.place is not distinct from theirs.place
    where ours.digest is null or ours.digest <> theirs.digest or (theirs.digest is null and ours.capture = $capture
        and list_contains($files, ours.sha256) and not list_contains($changed, ours.path))
)
select *, row_number() over (partition by what order by path, key) as number, count(*) over (partition by what) as count
from found qualify number <= $most + 1 order by what, number
