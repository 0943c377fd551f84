-- Settings that were changed, and those of brokers when they were first set. What a topic was created with is no change.
from (
    select "offset", timestamp_ms, resource_type, resource_name, name, value, lag(value) over key as before
    from config_history where timestamp_ms between 0 and 4503599627370495
    window key as (partition by resource_type, resource_name, name order by "offset")
    qualify case
        when resource_type = 'topic' then row_number() over key > 1 and value is distinct from before
            and timestamp_ms > min(timestamp_ms) over (partition by resource_type, resource_name)
        else value is distinct from before end
)
where $topic is null or resource_name = $topic or resource_type is distinct from 'topic'
order by "offset", resource_name, name
