-- The topics that the log has, or had.
select distinct topic from partition_history where topic is not null
