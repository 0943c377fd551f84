-- The rule profiles that predict some election.
select distinct prediction.profile as profile
from (select unnest(predictions) as prediction from elections)
where profile is not null order by profile
