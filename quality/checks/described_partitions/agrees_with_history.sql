-- meaning: A printed leader and ISR are those of a state that the history has up to quality.print_delay_ms after that
--   time, or a describe_mismatch is found, or the history begins near that time, or has a hole.
-- action: History and cluster differ: see what detect found; if it found nothing, report it with the capture.
-- kind: agreement; severity: error; scope: cluster
-- key: source, captured_at_ms, topic, partition
with printed as (
    select source, captured_at_ms, topic, partition, leader, list_sort(list_distinct(coalesce(isr, []))) as isr,
        captured_at_ms::hugeint - $print_delay_ms as earliest,
        captured_at_ms::hugeint + coalesce(uncertainty_ms, 0) + $print_delay_ms as latest,
        row_number() over () as number
    from described_partitions anti join (from findings where kind = 'describe_mismatch') using (topic, partition)
    where captured_at_ms <= (select greatest(max(max_timestamp_ms), 0) from log_batches)
)
select p.source, p.captured_at_ms, p.topic, p.partition
from partition_history h join printed p
    on h.topic = p.topic and h.partition = p.partition
    and timestamp_ms <= latest
where not coalesce(removed, false)
group by p.source, p.captured_at_ms, p.topic, p.partition, number
having bool_or(coalesce(end_timestamp_ms, 9223372036854775807) >= earliest)
    and not bool_or(end_offset is not null and end_timestamp_ms is null)
    and not bool_or(coalesce(origin = 'checkpoint', false) and timestamp_ms > earliest)
    and not bool_or(h.leader is not distinct from p.leader and list_sort(list_distinct(coalesce(h.isr, []))) = p.isr)
