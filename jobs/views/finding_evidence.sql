-- The evidence of every finding, one row a piece: `findings.evidence` without nesting.
--
-- cluster_id: Kafka cluster id
-- finding_id: id of the finding
-- kind: kind of the finding
-- topic: topic name at that time
-- partition: partition
-- topic_id: topic id: the identity of the topic
-- role: what the piece is for, e.g. window_start, high_watermark_floor
-- source: table or kind of file that it is in
-- broker_id: broker that it is about
-- value: its value, e.g. an offset of the partition
-- leader_epoch: leader epoch
-- metadata_offset: metadata offset of the record
-- captured_at: when the value was read
-- captured_at_ms: captured_at in ms since the Unix epoch
-- capture: capture that the row was first read from
-- path: file inside the capture
-- sha256: SHA-256 of that file, hex
-- position: byte position in that file
with pieces as (
  select f.cluster_id, f.finding_id, f.kind, f.topic, f.partition, f.topic_id, explode(f.evidence) as piece
  from findings f
)
select
  p.cluster_id, p.finding_id, p.kind, p.topic, p.partition, p.topic_id,
  p.piece.role, p.piece.source, p.piece.broker_id, p.piece.value, p.piece.leader_epoch,
  p.piece.offset as metadata_offset,
  utc(p.piece.captured_at_ms) as captured_at,
  p.piece.captured_at_ms, p.piece.capture, p.piece.path, p.piece.sha256, p.piece.position
from pieces p
