-- What questions.sql asks, in the database that is the current one: FINAL leaves out what was delivered again. A run's row is what its parts
-- come to (`gpupeak tables --partial`); a run with ranks that nobody delivered is not complete.
CREATE VIEW IF NOT EXISTS runs AS
SELECT run, program_ AS program, command_ AS command, started_ AS started, duration_ AS duration_s, ranks_ AS ranks, expected_ AS expected_ranks,
       failed_ AS failed_ranks, device_ AS device_peak_bytes, host_ AS host_peak_bytes, exact_ AS exact,
       complete_ AND ifNull(ranks_ >= expected_, 1) AS complete, commit_ AS `labels.commit`, version_ AS version, day_ AS day
FROM (SELECT run, min(program) AS program_, min(command) AS command_, min(started) AS started_, max(duration_s) AS duration_, sum(ranks) AS ranks_,
             max(expected_ranks) AS expected_, sum(failed_ranks) AS failed_, max(device_peak_bytes) AS device_, max(host_peak_bytes) AS host_,
             min(exact) AS exact_, min(complete) AS complete_, any(`labels.commit`) AS commit_, min(version) AS version_, min(day) AS day_
      FROM runs_rows FINAL GROUP BY run);
CREATE VIEW IF NOT EXISTS ranks AS SELECT * FROM ranks_rows FINAL;
CREATE VIEW IF NOT EXISTS peaks AS SELECT * FROM peaks_rows FINAL;
CREATE VIEW IF NOT EXISTS holders AS SELECT * FROM holders_rows FINAL;
CREATE VIEW IF NOT EXISTS phases AS SELECT * FROM phases_rows FINAL;
CREATE VIEW IF NOT EXISTS pools AS SELECT * FROM pools_rows FINAL;
CREATE VIEW IF NOT EXISTS failures AS SELECT * FROM failures_rows FINAL;
