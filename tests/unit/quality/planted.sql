-- Defects, each with the expectation that is meant for it and, in words, what is wrong. `*`: of each table that has a
-- check of this name, and no defect of its own for it here. UPDATE and DELETE change the first row that they select.

-- *.key_unique: a row is there twice
insert into {table} by name select * from {table} limit 1;
-- *.file_known: `sha256` is of no file of the lake
update {table} set sha256 = repeat('0', 64);
-- *.node_of_file: `node_id` is not that of the file
update {table} set node_id = 987;
-- *.intervals_join: a state ends after the next one begins
update {table} set end_offset = end_offset + 1 where end_offset is not null;
-- *.record_exists: a state is at an offset without a record
update {table} set "offset" = "offset" + 1000000 where origin = 'log';

-- evidence_files.every_byte: a byte more was parsed
update evidence_files set parsed_bytes = parsed_bytes + 1;
-- evidence_files.offsets_held: a batch of a segment is missing
delete from log_batches where base_offset > 20;
-- evidence_files.quarantine_listed: a file has quarantined bytes that quarantine does not list
update evidence_files set quarantined_bytes = 5;
-- evidence_files.capture_listed: the capture has no row
delete from captures;
-- quarantine.within_file: a row goes on after the end of its file
update quarantine set length_bytes = length_bytes + 1;
-- captures.is_manifest: the row's file is a server.properties
update evidence_files set kind = 'server_properties' where kind = 'manifest';
-- captures.files_counted: a file is counted that evidence_files does not have
update captures set files = files + 1;
-- captures.files_counted: its last file was captured a second later
update captures set last_captured_ms = last_captured_ms + 1000 where last_captured_ms is not null;

-- log_batches.offsets_dense: `record_count` is one more
update log_batches set record_count = record_count + 1;
-- log_batches.no_gap: a batch is missing
delete from log_batches where base_offset > 20;
-- log_batches.epochs_rise: a later batch has epoch 0
update log_batches set epoch = 0 where base_offset > 50;
-- log_batches.records_decoded: a record is missing
delete from metadata_records where rowid = 5;
-- metadata_records.batch_known: a record has the CRC of no batch
update metadata_records set batch_crc = batch_crc + 1;
-- metadata_records.fields_typed: a partition record has no fields
update metadata_records set partition_change = null where partition_change is not null;
-- metadata_records.fields_typed: another record has no text
update metadata_records set payload = null where payload is not null;
-- snapshot_records.fields_typed: a partition record has no fields
update snapshot_records set partition_change = null where partition_change is not null;
-- snapshot_records.numbered: a record of a snapshot is missing
delete from snapshot_records where "offset" = 1;

-- broker_log_events.zone_possible: a line's UTC time is 7 minutes off
update broker_log_events set logged_at_utc_ms = logged_at_ms - 420000;
-- node_boots.apart: two processes share lines of a file
insert into node_boots by name
select * replace ("position" + 1 as "position", last_position as first_position) from node_boots limit 1;
-- node_clocks.bounds_agree: the bound of a clock's error is a second off
update node_clocks set error_lower_ms = error_lower_ms + 1000 where error_lower_ms is not null;
-- boot_ids.is_uuid: a boot id is `linux`
update boot_ids set boot_id = 'linux';

-- log_end_offsets.watermark_in_log: a high watermark is above the log end
update log_end_offsets set high_watermark = 1::bigint << 40 where log_end_offset is not null;
-- log_end_offsets.topic_known: a reading is of a topic that the log does not have
update log_end_offsets set topic = 'no such topic' where topic is not null;
-- log_end_offsets.windows_covered: a window's partition was read only long before it, from one source
create or replace table log_end_offsets as
with lossy as (select topic, "partition" from findings where kind = 'hwm_regression' limit 1),
one as (select * from log_end_offsets where captured_at_ms is not null and broker_id is not null limit 1)
select * from log_end_offsets anti join lossy using (topic, "partition")
union all by name
select one.* replace (lossy.topic as topic, lossy."partition" as "partition", at_ms as captured_at_ms)
from one, lossy, range(1, 5) times(at_ms);
-- log_end_offsets.fresh: a source's newest reading is years old
insert into log_end_offsets by name
select * replace ('jmx_tool' as source, 1 as captured_at_ms) from log_end_offsets where captured_at_ms is not null limit 1;
-- described_partitions.state_possible: the ISR has a broker that is no replica
update described_partitions set isr = isr || [99];
-- described_partitions.agrees_with_history: the printed leader never led
update described_partitions set leader = 4242 where len(isr) > 0;
-- quorum_reports.leader_is_voter: the leader is not among the voters
update quorum_reports set leader_id = 99 where voters is not null;
-- quorum_reports.agrees_with_history: another leader for the epoch
update quorum_reports set leader_id = 3001 where source = 'quorum_state';

-- partition_history.state_whole: a state has no leader epoch
update partition_history set leader_epoch = null where not removed;
-- partition_history.epochs_rise: a leader epoch falls
update partition_history set leader_epoch = 0 where leader_epoch = 2;
-- partition_history.changes_have_states: a state is missing
delete from partition_history where leader_epoch = 1;
-- partition_history.agrees_with_snapshots: a snapshot has another leader epoch
update snapshot_records
set partition_change = struct_update(partition_change, leader_epoch := partition_change.leader_epoch + 7)
where partition_change is not null;
-- partition_history.isr_within_replicas: the ISR has a broker that is no replica
update partition_history set isr = isr || [99] where not removed;
-- partition_history.elr_within_replicas: the ELR has a broker that is no replica
update partition_history set elr = [99] where not removed;
-- partition_history.isr_and_elr_disjoint: ISR and ELR have the same broker
update partition_history set elr = [1, 2, 3, 4] where len(isr) > 0;
-- partition_history.leader_in_isr: the leader is not in the ISR
update partition_history set leader = 99 where not removed;
-- partition_history.elr_empty_at_min_isr: the ELR has a member although the ISR is full
update partition_history set elr = [99] where len(isr) = 3;
-- partition_history.recovering_isr_is_leader: RECOVERING with an ISR of three
update partition_history set leader_recovery_state = 'RECOVERING' where len(isr) = 3;
-- partition_history.directories_match_replicas: a directory too few
update partition_history set directories = directories[2:] where not removed;
-- partition_history.last_known_elr_never_minus_one: the last known ELR holds -1
update partition_history set last_known_elr = [-1] where not removed;
-- partition_history.replicas_distinct: a replica is there twice
update partition_history set replicas = replicas || [replicas[1]] where len(replicas) > 0;

-- feature_history.intervals_join: a level is there twice, and the first one does not end
insert into feature_history by name select * replace ("offset" + 1 as "offset") from feature_history limit 1;
-- broker_history.epochs_rise: the broker epoch of a later row is lower
update broker_history set broker_epoch = -5
where broker_epoch is not null and "offset" = (select max("offset") from broker_history where broker_epoch is not null);
-- broker_history.restart_evidence_exists: a session's end is proven by no record
update broker_history set restart_evidence = [1::bigint << 40];
-- quorum_history.epochs_rise: the controller epoch falls
update quorum_history set controller_epoch = -5 where "offset" = (select max("offset") from quorum_history);
-- quorum_history.leader_is_voter: the active controller is no voter
update quorum_history set leader_id = 99;
-- config_history.source_fits: an effective value without a source
update config_history set source = null where source is not null;
-- cluster_metrics.electable_reproduced: a value is one more
update cluster_metrics set value = value + 1 where metric = 'electable_replicas_count';

-- elections.changes_listed: an election is missing
delete from elections where leader_epoch > 1;
-- elections.agrees_with_history: another leader was elected
update elections set leader = 99;
-- elections.candidates_are_replicas: a candidate is no replica
update elections set candidates = candidates || [99];
-- rule_differences.change_exists: the change is at an offset without a state
update rule_differences set "offset" = "offset" + 1000000;
-- rule_differences.profile_possible: an unexplained change with a profile that is not possible
update rule_differences set difference = 'unexplained', profile = '9.9';
-- invariant_violations.evidence_exists: a violation is shown by no record
update invariant_violations set evidence_offsets = [1::bigint << 40];
-- counterfactuals.finding_exists: the finding of a prediction is missing
update counterfactuals set finding_id = 'none';
-- counterfactuals.outcome_fits: elected, but nobody
update counterfactuals set leader = null where outcome = 'elected';

-- findings.evidence_file_known: the file of a piece of evidence is missing
update findings set evidence = [
    case when piece.source in ('leader_epoch', 'jmx_exporter') then struct_update(piece, sha256 := 'none') else piece end
    for piece in evidence]
where len([piece for piece in evidence if piece.source in ('leader_epoch', 'jmx_exporter')]) > 0;
-- findings.evidence_row_exists: evidence at a position without a row
update findings set evidence = [
    case when piece.source in ('leader_epoch', 'jmx_exporter')
        then struct_update(piece, "position" := 1::bigint << 40) else piece end
    for piece in evidence]
where len([piece for piece in evidence if piece.source in ('leader_epoch', 'jmx_exporter')]) > 0;
-- findings.evidence_state_exists: a state that is evidence has another leader epoch
update findings set evidence = [
    case when piece.source = 'partition_history' then struct_update(piece, leader_epoch := 4242) else piece end
    for piece in evidence]
where len([piece for piece in evidence if piece.source = 'partition_history']) > 0;
-- findings.counts_reproduced: a loss is one more than its reason says
update findings set loss_min = loss_min + 1 where loss_min > 0 and kind = 'hwm_regression';
-- findings.verdict_fits: proven, but nothing is lost
update findings set verdict = 'proven' where verdict = 'possible' and kind = 'hwm_regression';
-- findings.topic_known: a window of a topic without a history
update findings set topic_id = 'none' where kind = 'hwm_regression';
-- quality_results.runs_whole: a row of a run has another fingerprint
insert into quality_results by name
select * replace ('fresh' as expectation, 'another' as suite_fingerprint) from quality_results limit 1;
