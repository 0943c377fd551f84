-- Makes `drills`, which the other files of this folder read: a row for each line of the file that the variable `scores`
-- names (drill.score.append), in their order, and what they count in it. What a drill did not try is null.
create macro total(counts) as coalesce(list_sum(map_values(counts)), 0);
create macro decided_of(verdicts) as coalesce(verdicts['proven'], 0) + coalesce(verdicts['excluded'], 0);
create macro begin_with(found, word) as len([text for text in map_values(found) if starts_with(text, word)]);
create macro of_kind(wrong, word) as len([each for each in wrong if each.kind = word]);
create macro share(part, whole) as case when whole > 0 then format('{:.0f} %', 100 * part / whole) else '-' end;
create macro version(release) as string_split(release, '.')::integer[];
create macro as_text(version) as array_to_string(version, '.');
create table drills as
select
    *,
    version(release)[1:2] as minor,
    total(verdicts) as windows,
    decided_of(verdicts) as decided,
    decided_of(verdicts_without_logs) as decided_without_logs,
    total(lost) as lost_records,
    cardinality(found) as losses,
    begin_with(found, 'proven') as proven,
    len(wrong) as wrong_claims,
    cardinality(verdicts) + cardinality(lost) + len(wrong) = 0 and as_expected as is_quiet
from read_json(getvariable('scores'), format = 'newline_delimited', columns = {
    scenario: 'varchar', release: 'varchar', seed: 'bigint', "at": 'varchar', commit: 'varchar', as_expected: 'boolean',
    captures: 'bigint', lost: 'map(varchar, bigint)', states: 'bigint', wrong: 'struct(kind varchar)[]',
    found: 'map(varchar, varchar)', found_without_logs: 'map(varchar, varchar)',
    found_monitored: 'map(varchar, varchar)', verdicts_monitored: 'map(varchar, bigint)',
    open_monitored: 'map(varchar, bigint)', found_monitored_without_logs: 'map(varchar, varchar)',
    verdicts_monitored_without_logs: 'map(varchar, bigint)', open_monitored_without_logs: 'map(varchar, bigint)',
    verdicts: 'map(varchar, bigint)', verdicts_without_logs: 'map(varchar, bigint)',
    open: 'map(varchar, bigint)', open_without_logs: 'map(varchar, bigint)',
    plan: 'struct(
        held bigint, lost map(varchar, bigint), leaderless varchar[], careless struct(lost map(varchar, bigint)))',
    ahead: 'struct(
        wrong varchar[], in_order boolean, safe boolean, changed bigint, unclean bigint, lost map(varchar, bigint))[]',
    watch: 'struct(
        alarms bigint, withdrawn bigint, kills bigint, missed bigint, "false" bigint, twice bigint, states bigint,
        states_differ bigint, history_lacks bigint, median_delay_ms bigint, longest_delay_ms bigint)',
    salvage: 'struct(lost bigint, found bigint, salvaged bigint, live bigint, again bigint, below bigint)'
});
