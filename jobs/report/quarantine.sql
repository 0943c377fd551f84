-- The first rows of quarantine, without the bytes.
select * exclude (raw) from quarantine order by capture, path, position, reason limit $most
