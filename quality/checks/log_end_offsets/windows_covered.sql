-- meaning: Of every flagged window whose partition has a source of a broker that was read at least 3 times, one of
--   them covers at least the share quality.covered_share. A reading covers quality.reading_gap_ms, or the time to
--   the next. `details` has the mean share of every broker and source.
-- action: Read the sources more often, also while a broker is down (a copy of its disk). Verdicts stay sound
--   without; more of them are undecided.
-- kind: coverage; severity: warn; scope: cluster
-- key: topic, partition, start_timestamp_ms, end_timestamp_ms
select *, round(100 * share) || '% at most, by ' || source || ' of broker ' || broker_id as why
from (from window_shares qualify row_number() over (partition by number order by share desc) = 1)
where share < $covered_share;

select 'broker ' || broker_id || ', ' || source as name, round(avg(share), 3) as figure
from window_shares
group by broker_id, source
order by name
