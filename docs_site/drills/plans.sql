-- Plans followed: a line for each scenario whose plan was followed, and one for all. The careless order counts where it
-- could be compared.
select
    coalesce(scenario, 'all') as scenario,
    count(*) as drills,
    sum(windows) as windows,
    share(sum(decided), sum(windows)) as decided,
    sum(wrong_claims) as "wrong claims",
    count(*) filter (not as_expected) as "not as expected",
    sum(plan.held) as records,
    sum(total(plan.lost)) as "lost by the plan",
    sum(len(plan.leaderless)) as "without a leader after it",
    count(plan.careless) as compared,
    sum(total(plan.careless.lost)) as "records lost by all at once",
    count(*) filter (cardinality(plan.careless.lost) > 0) as "drills in which it lost some"
from drills
where plan is not null
group by rollup (drills.scenario)
having count(*) > 0
order by drills.scenario is null, drills.scenario
