-- Drills under `watch`: a line for each.
select
    scenario,
    release as "Kafka",
    seed,
    watch.alarms as alarms,
    watch.withdrawn as withdrawn,
    watch.kills as "kills of the watch",
    watch.missed + watch."false" + watch.twice as "missed, false or twice",
    watch.states as states,
    watch.states_differ + watch.history_lacks as differ,
    format('{:.1f} s', watch.median_delay_ms / 1000) as "median delay",
    format('{:.1f} s', watch.longest_delay_ms / 1000) as longest
from drills
where watch is not null
