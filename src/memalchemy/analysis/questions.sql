-- Which tools were called most, by which agent, and what did that cost?
with costs as (
  select tenant, thread, namespace, step, sum(cost_usd) as cost from usage group by all
)
select name as tool, agent, count(*) as calls, round(sum(cost), 3) as dollars
from tool_calls left join costs using (tenant, thread, namespace, step)
group by all order by calls desc, tool;

-- Which calls failed, and why?
select thread, name as tool, arguments->>'about' as about, result
from tool_calls where error order by time;

-- Which calls still wait for a result?
select thread, name as tool, time from tool_calls where result is null;

-- How long do tools take?
select name as tool, round(avg(duration_ms) / 1000, 1) as seconds, count(duration_ms) as measured
from tool_calls group by all order by seconds desc nulls last;

-- What did each day cost?
select date_trunc('day', time)::date as day, sum(cost_usd) as dollars
from usage group by all order by day;

-- Which model takes the tokens?
select model, count(*) as answers, sum(input_tokens) as tokens_in, sum(output_tokens) as tokens_out
from usage group by all order by tokens_in desc;

-- Who costs most?
select user_id, count(distinct thread) as threads, sum(cost_usd) as dollars
from usage group by all order by dollars desc;

-- What is each thread about?
select thread, arg_min(text, position) as first_question, count(*) as questions, max(time) as last
from messages where role = 'user' group by all order by last desc;

-- Where is Lisbon mentioned?
select thread, role, text from messages where text ilike '%lisbon%'
union all
select namespace, kind, text from memories where text ilike '%lisbon%';

-- After which tool does a person ask again within an hour?
select calls.name as tool, count(*) as again
from tool_calls as calls join messages as later using (thread, namespace)
where later.role = 'user' and later.time > calls.time and later.time < calls.time + interval 1 hour
group by all;
