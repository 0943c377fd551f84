-- Steps predicted with `ahead`: one line for all of them; none if no step was predicted.
with asked as (
    select
        len(ahead) as steps,
        len([step for step in ahead if len(step.wrong) = 0]) as correct,
        len([step for step in ahead if step.in_order]) as in_order,
        len([step for step in ahead if step.changed > 0]) as changing,
        len([step for step in ahead if not step.safe]) as unsafe,
        len([step for step in ahead if step.unclean > 0]) as unclean,
        coalesce(list_max([total(step.lost) for step in ahead]), 0) as lost
    from drills
    where ahead is not null
)
select
    sum(steps) as steps,
    share(sum(correct), sum(steps)) as "right",
    sum(in_order) as "in an order of `--restart-all`",
    sum(changing) as "that change something",
    sum(unsafe) as "not safe",
    sum(unclean) as "elected uncleanly, as said",
    sum(lost) as "lost records"
from asked
having count(*) > 0
