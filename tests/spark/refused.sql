delete from findings
delete from findings where partition = 1
update findings set kind = 'a'
insert into findings select * from findings
insert into findings (finding_id) values ('x')
insert overwrite findings select * from findings
insert into identifier('findings') select * from findings
insert into findings replace where partition = 1 select * from findings
with gone as (select * from findings) insert into findings select * from gone
from findings insert into findings select * insert into elections select *
merge into findings using elections e on findings.partition = e.partition when matched then delete
insert overwrite directory '{out}' using parquet select * from findings
insert overwrite local directory '{out}' select partition from findings
truncate table findings
drop table findings
drop table if exists identifier('findings')
drop view findings
drop database default cascade
alter table findings add columns (x int)
alter table {delta} drop column kind
alter table findings rename to lost
alter view findings as select 1
create table {delta_out} as select * from findings
create table t using parquet location '{out}' as select 1 as a
create or replace table findings as select 1 as a
create temporary view mine as select 1
create database d location '{out}'
create function f as 'a.B'
vacuum findings
vacuum {delta} retain 0 hours
optimize findings
optimize {delta} zorder by (partition)
restore table {delta} to version as of 0
reorg table {delta} apply (purge)
convert to delta parquet.`{out}`
delete from {delta}
comment on table findings is 'x'
analyze table findings compute statistics
cache table findings
uncache table findings
refresh table findings
set
set spark.sql.ansi.enabled = false
set time zone 'UTC'
set var x = 1
declare variable x int
reset
use default
add jar '{out}'
msck repair table findings
load data inpath '{out}' into table findings
execute immediate 'delete from findings'
begin delete from findings; end
begin select 1; end
call sys.vacuum()
select transform(kind) using 'touch {out}' as (x) from findings
explain delete from findings
explain extended with x as (select 1) insert into findings select * from x
explain formatted create table t as select 1
explain codegen truncate table findings
