-- On how many commits they were played, and when the last one was.
select
    'Played on ' || count(distinct coalesce("commit", '')) || ' commits, the last one at ' || coalesce(max("at"), '-') || '.'
        as text
from drills
