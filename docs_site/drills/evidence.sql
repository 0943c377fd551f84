-- Of drills by chance, by the evidence that they had: how much was decided and proven, and what open windows lack, if it
-- is a twentieth of them anywhere. The last capture is after the incident; results from before drills noted their number
-- count nowhere.
create type evidence as enum (
    'one capture, with nodes'' logs and a monitor', 'one capture, with nodes'' logs', 'one capture, with a monitor',
    'one capture, without',
    'no power loss, with nodes'' logs', 'no power loss, without',
    'a schedule, with nodes'' logs', 'a schedule, without'
);
with noted as (
    select
        *,
        case when captures > 1 then 'a schedule' when scenario = 'random_kills' then 'no power loss' else 'one capture' end
            as captured
    from drills
    where starts_with(scenario, 'random') and captures is not null
),
judged as (
    select captured || ', with nodes'' logs' as kind, verdicts, found, open from noted
    union all
    select captured || ', without', verdicts_without_logs, found_without_logs, open_without_logs from noted
    union all
    select 'one capture, with nodes'' logs and a monitor', verdicts_monitored, found_monitored, open_monitored
    from noted
    where captures = 1 and scenario != 'random_kills'
    union all
    select
        'one capture, with a monitor', verdicts_monitored_without_logs, found_monitored_without_logs,
        open_monitored_without_logs
    from noted
    where captures = 1 and scenario != 'random_kills'
),
groups as (
    select
        kind,
        count(verdicts) as drills,
        coalesce(sum(total(verdicts)), 0) as windows,
        share(sum(decided_of(verdicts)), sum(total(verdicts))) as decided,
        coalesce(sum(cardinality(found)), 0) as losses,
        share(sum(begin_with(found, 'proven')), sum(cardinality(found))) as proven
    from (select unnest(enum_range(null::evidence))::varchar as kind) left join judged using (kind)
    group by kind
),
counted as (
    select kind, entry.key as code, sum(entry.value) as lack
    from (select kind, unnest(map_entries(open)) as entry from judged)
    group by all
),
lacking as (
    select kind, code, coalesce(lack, 0) as lack, windows
    from groups cross join (select distinct code from counted) left join counted using (kind, code)
),
frequent as (
    select code, max(lack) filter (kind = 'one capture, with nodes'' logs') as at_first
    from lacking
    group by code
    having bool_or(windows > 0 and lack >= 0.1 * windows)
),
lines as (
    select kind, unnest([
        {place: -5, evidence: 'drills', value: drills::varchar},
        {place: -4, evidence: 'windows', value: windows::varchar},
        {place: -3, evidence: 'decided', value: decided},
        {place: -2, evidence: 'partitions with losses', value: losses::varchar},
        {place: -1, evidence: 'proven', value: proven}
    ], recursive := true), 0 as at_first
    from groups
    union all
    select kind, 0, '`' || code || '`', share(lack, windows), at_first from frequent join lacking using (code)
)
select * exclude (place, at_first)
from (pivot lines on kind in evidence using first(value) group by place, at_first, evidence)
order by place, at_first desc, trim(evidence, '`')
