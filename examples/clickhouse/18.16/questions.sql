-- The questions of docs/sql.md in the words of ClickHouse 18.16: without WITH … AS (SELECT …), windows and FILTER. A median over more than
-- 8,192 values is made of the sorted values, since quantile() is an estimate there.

-- The peak by commit
SELECT `labels.commit` AS commit, count(*) AS runs, median(device_peak_bytes) AS usual, max(device_peak_bytes) AS most
FROM runs WHERE program = 'train' GROUP BY commit ORDER BY min(started) DESC LIMIT 20;

-- Outliers of a job
SELECT rank, name, held AS bytes, round(100 * (held / usual - 1)) AS percent_more
FROM (SELECT rank, name, sum(bytes) AS held FROM holders WHERE run = 'job4711' AND scope LIKE 'device:_' AND name IS NOT NULL GROUP BY rank, name)
ALL INNER JOIN (
  SELECT name, median(of_rank) AS usual
  FROM (SELECT rank, name, sum(bytes) AS of_rank FROM holders WHERE run = 'job4711' AND scope LIKE 'device:_' AND name IS NOT NULL GROUP BY rank, name)
  GROUP BY name) USING (name)
WHERE held > 1.1 * usual ORDER BY held - usual DESC LIMIT 10;

-- What grew since last week
SELECT name, sum(CASE WHEN is_new THEN held / runs ELSE -held / runs END) AS grown
FROM (SELECT is_new, name, sum(bytes) AS held FROM holders
      ALL INNER JOIN (SELECT run, started > (SELECT max(started) FROM runs) - INTERVAL 7 DAY AS is_new FROM runs
                      WHERE program = 'train' AND started > (SELECT max(started) FROM runs) - INTERVAL 14 DAY) USING (run)
      WHERE scope LIKE 'device:_' AND name IS NOT NULL GROUP BY is_new, name)
ALL INNER JOIN (SELECT started > (SELECT max(started) FROM runs) - INTERVAL 7 DAY AS is_new, count(*) AS runs FROM runs
                WHERE program = 'train' AND started > (SELECT max(started) FROM runs) - INTERVAL 14 DAY GROUP BY is_new) USING (is_new)
GROUP BY name ORDER BY grown DESC LIMIT 10;

-- Which GPU would do
SELECT program, bytes, nullIf(argMinIf(card.1, card.2, card.2 >= bytes), '') AS smallest
FROM (SELECT program, max(device_peak_bytes + card_overhead_bytes) AS bytes
      FROM ranks ALL INNER JOIN (SELECT run, program FROM runs) USING (run) GROUP BY program)
ARRAY JOIN [('T4', 14.56 * pow(2, 30)), ('A10', 21.99 * pow(2, 30)), ('A100 40GB', 39.5 * pow(2, 30)), ('H100 80GB', 79.1 * pow(2, 30))] AS card
GROUP BY program, bytes ORDER BY bytes DESC;

-- What ran out of memory, and why
SELECT program, cause, uniqExact(run) AS runs, max(requested_bytes) AS largest, argMax(name, requested_bytes) AS who
FROM failures ALL INNER JOIN (SELECT run, program FROM runs) USING (run) GROUP BY program, cause ORDER BY runs DESC, program, cause LIMIT 20;

-- Who holds most, of all programs
SELECT name, uniqExact(run) AS runs, sum(bytes) AS held, round(100 * held / (SELECT sum(bytes) FROM holders WHERE scope LIKE 'device:_'), 1) AS percent
FROM holders WHERE scope LIKE 'device:_' GROUP BY name ORDER BY held DESC, name LIMIT 20;

-- Which phase needs most
SELECT program, phase, sorted[intDiv(length(sorted) + 1, 2)] / 2 + sorted[intDiv(length(sorted), 2) + 1] / 2 AS usual, most
FROM (SELECT program, phase, arraySort(groupArray(device_peak_bytes)) AS sorted, max(device_peak_bytes) AS most
      FROM phases ALL INNER JOIN (SELECT run, program FROM runs) USING (run) WHERE depth = 0 GROUP BY program, phase)
ORDER BY most DESC, program, phase LIMIT 20;

-- How much the pools leave idle
SELECT program, pool, count(*) AS pools, avg(idle_then_bytes) AS idle, round(100 * sum(idle_then_bytes) / sum(reserved_peak_bytes), 1) AS percent
FROM pools ALL INNER JOIN (SELECT run, program FROM runs) USING (run) GROUP BY program, pool ORDER BY idle DESC LIMIT 20;

-- Which figures are not to be relied upon
SELECT run, program, sum(lost_events) AS lost, min(exact) AS all_exact, min(complete) AS all_complete
FROM ranks ALL INNER JOIN (SELECT run, program FROM runs) USING (run) WHERE lost_events > 0 OR NOT exact OR NOT complete GROUP BY run, program
ORDER BY lost DESC, run LIMIT 20;

-- How it went, day by day, and which hosts end runs
SELECT day, count(*) AS logs, median(device_peak_bytes) AS usual, max(device_peak_bytes) AS most, max(ended) AS killed, max(mostly) AS mostly_on
FROM ranks
ALL LEFT JOIN (SELECT day, sum(times) AS ended, argMax(host, (times, host)) AS mostly
               FROM (SELECT day, host, count(*) AS times FROM ranks WHERE exit_kind = 'signal' GROUP BY day, host) GROUP BY day) USING (day)
GROUP BY day ORDER BY day DESC LIMIT 30 SETTINGS join_use_nulls = 1;
