-- A line for each release, and one for all.
select
    coalesce(release, 'all') as "Kafka",
    count(*) as drills,
    sum(windows) as windows,
    share(sum(decided), sum(windows)) as decided,
    share(sum(decided_without_logs), sum(total(verdicts_without_logs))) as "without logs",
    sum(losses) as "partitions with losses",
    sum(proven) as proven,
    sum(begin_with(found, 'excluded') + begin_with(found, 'no window')) as missed,
    sum(of_kind(wrong, 'wrong proven')) as "wrong proven",
    sum(of_kind(wrong, 'wrong excluded')) as "wrong excluded",
    sum(of_kind(wrong, 'wrong bounds') + of_kind(wrong, 'wrong first')) as "wrong bounds",
    sum(of_kind(wrong, 'contradiction')) as "other contradictions",
    sum(states) as states,
    sum(of_kind(wrong, 'wrong state')) as differ
from drills
group by rollup (release)
order by release is null, version(release)
