-- Findings in the order of the report, section after section: their rows. kinds: the section of each kind of finding.
with of_section as (
    select given.*, if(kinds.section = 'windows' and verdict = 'excluded', 'excluded', kinds.section) as section,
        coalesce(list_position($severities, severity), 0) as severity_rank,
        list_position($verdicts, coalesce(verdict, 'undetermined')) as verdict_rank,
        -- Decided windows lean no way: proven ones come first.
        coalesce(list_position($leanings, likely), 0) as leaning_rank, -loss_min::hugeint as certain,
        -- The largest loss that the bounds allow. No upper bound sorts above any loss, no bounds at all below.
        case when loss_max is null and loss_min is null then 1 else -coalesce(loss_max, 9223372036854775807) end
            as conceivable
    from given join kinds using (kind)
),
-- Predictions about a window stay together, at the place of the worst one; equal answers are adjacent.
predictions as (
    select "row", min(severity_rank) over of_window as gravest, min(certain) over of_window as most
    from of_section where section = 'other_rules'
    window of_window as (partition by topic_id, partition, election_offset)
)
select "row", section from of_section left join predictions using ("row")
where list_contains($sections, section)
order by list_position($sections, section),
    case when section in ('windows', 'excluded') then leaning_rank when section = 'other_rules' then gravest
        when section = 'exposures' then -lasted_ms::hugeint else severity_rank end,
    case when section = 'other_rules' then most when section <> 'exposures' then verdict_rank end,
    case when section in ('windows', 'excluded') then certain end,
    case when section in ('windows', 'excluded') then conceivable end,
    topic, topic_id, partition, if(section = 'other_rules', election_offset, null),
    if(section = 'other_rules', certain, null), if(section = 'other_rules', conceivable, null),
    if(section = 'other_rules', would_be_leader, null), if(section = 'other_rules', severity_rank, null),
    start_offset, finding_id
