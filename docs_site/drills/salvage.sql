-- Records got back: a line for each scenario whose kept disks were salvaged, and one for all.
select
    coalesce(scenario, 'all') as scenario,
    count(*) as drills,
    coalesce(sum(salvage.lost), 0) as "lost records",
    coalesce(sum(salvage.found), 0) as "of them salvaged",
    coalesce(sum(salvage.salvaged), 0) as "salvaged in all",
    coalesce(sum(salvage.live), 0) as "by the running cluster, too",
    coalesce(sum(salvage.again), 0) as "produced again and read back",
    coalesce(sum(salvage.below), 0) as "below the high watermark for certain"
from drills
where salvage is not null
group by rollup (drills.scenario)
having count(*) > 0
order by drills.scenario is null, drills.scenario
