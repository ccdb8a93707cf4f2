-- The tables of `gpupeak tables` in ClickHouse (25.8 and newer). A row that is delivered again takes the place of the old one: the sorting keys
-- name it. The views are what docs/sql.md asks; FINAL leaves out what was delivered again and is not merged yet.
--   clickhouse-client --multiquery < schema.sql
-- Nothing is older than a year: change the TTL before you load.
CREATE DATABASE IF NOT EXISTS gpupeak;

CREATE TABLE IF NOT EXISTS gpupeak.runs_rows (
  run String, part String, program LowCardinality(Nullable(String)), command Nullable(String) CODEC(ZSTD(3)), started Nullable(DateTime64(6, 'UTC')),
  duration_s Nullable(Float64), ranks UInt64, expected_ranks Nullable(UInt64), failed_ranks UInt64, device_peak_bytes Nullable(UInt64), host_peak_bytes Nullable(UInt64),
  exact Nullable(Bool), complete Nullable(Bool), labels Map(String, String), version LowCardinality(Nullable(String)), day Date
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, run, part) TTL day + INTERVAL 1 YEAR;

CREATE TABLE IF NOT EXISTS gpupeak.ranks_rows (
  run String, log String, rank Nullable(Int32), host LowCardinality(Nullable(String)), pid UInt64, started Nullable(DateTime64(6, 'UTC')),
  duration_s Nullable(Float64), exit_kind LowCardinality(Nullable(String)), exit_code Nullable(Int32), device_peak_bytes Nullable(UInt64),
  host_peak_bytes Nullable(UInt64), rss_peak_bytes Nullable(UInt64), card LowCardinality(Nullable(String)), card_bytes Nullable(UInt64),
  card_overhead_bytes Nullable(Int64), lost_events Nullable(UInt64), exact Nullable(Bool), complete Nullable(Bool), day Date
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, run, log, pid) TTL day + INTERVAL 1 YEAR;

CREATE TABLE IF NOT EXISTS gpupeak.peaks_rows (
  run String, log String, rank Nullable(Int32), scope LowCardinality(String), bytes UInt64, error_bytes Nullable(UInt64), time_s Nullable(Float64),
  phase Nullable(String), day Date
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, run, log, scope) TTL day + INTERVAL 1 YEAR;

CREATE TABLE IF NOT EXISTS gpupeak.holders_rows (
  run String, log String, rank Nullable(Int32), number UInt64, scope LowCardinality(String), name Nullable(String) CODEC(ZSTD(3)),
  kind LowCardinality(Nullable(String)), module Nullable(String) CODEC(ZSTD(3)), phase Nullable(String) CODEC(ZSTD(3)), bytes UInt64,
  error_bytes Nullable(UInt64), blocks Nullable(UInt64), day Date
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, run, log, number) TTL day + INTERVAL 1 YEAR;

CREATE TABLE IF NOT EXISTS gpupeak.phases_rows (
  run String, log String, rank Nullable(Int32), number UInt64, phase String CODEC(ZSTD(3)), parent Nullable(String), source LowCardinality(Nullable(String)),
  depth Nullable(Int32), instances Nullable(UInt64), open_s Nullable(Float64), device_peak_bytes Nullable(UInt64), device_kept_bytes Nullable(UInt64),
  host_peak_bytes Nullable(UInt64), host_kept_bytes Nullable(UInt64), day Date
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, run, log, number) TTL day + INTERVAL 1 YEAR;

CREATE TABLE IF NOT EXISTS gpupeak.pools_rows (
  run String, log String, rank Nullable(Int32), number UInt64, pool LowCardinality(Nullable(String)), device Nullable(Int32),
  in_use_peak_bytes Nullable(UInt64), idle_then_bytes Nullable(UInt64), reserved_peak_bytes Nullable(UInt64), refused Nullable(UInt64), day Date
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, run, log, number) TTL day + INTERVAL 1 YEAR;

CREATE TABLE IF NOT EXISTS gpupeak.failures_rows (
  run String, log String, rank Nullable(Int32), number UInt64, time_s Nullable(Float64), device Nullable(Int32), api LowCardinality(Nullable(String)),
  requested_bytes Nullable(UInt64), free_bytes Nullable(UInt64), total_bytes Nullable(UInt64), cause LowCardinality(Nullable(String)),
  phase Nullable(String), name Nullable(String), day Date
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, run, log, number) TTL day + INTERVAL 1 YEAR;

-- A run's row is what its parts come to (`gpupeak tables --partial`); a run with ranks that nobody delivered is not complete.
CREATE VIEW IF NOT EXISTS gpupeak.runs AS
SELECT * EXCEPT (all_complete), all_complete AND ifNull(ranks >= expected_ranks, true) AS complete
FROM (SELECT run, min(of.program) AS program, min(of.command) AS command, min(of.started) AS started, max(of.duration_s) AS duration_s,
             sum(of.ranks) AS ranks, max(of.expected_ranks) AS expected_ranks, sum(of.failed_ranks) AS failed_ranks,
             max(of.device_peak_bytes) AS device_peak_bytes, max(of.host_peak_bytes) AS host_peak_bytes, min(of.exact) AS exact,
             min(of.complete) AS all_complete, any(of.labels) AS labels, min(of.version) AS version, min(of.day) AS day
      FROM gpupeak.runs_rows AS of FINAL GROUP BY run);
CREATE VIEW IF NOT EXISTS gpupeak.ranks AS SELECT * FROM gpupeak.ranks_rows FINAL;
CREATE VIEW IF NOT EXISTS gpupeak.peaks AS SELECT * FROM gpupeak.peaks_rows FINAL;
CREATE VIEW IF NOT EXISTS gpupeak.holders AS SELECT * FROM gpupeak.holders_rows FINAL;
CREATE VIEW IF NOT EXISTS gpupeak.phases AS SELECT * FROM gpupeak.phases_rows FINAL;
CREATE VIEW IF NOT EXISTS gpupeak.pools AS SELECT * FROM gpupeak.pools_rows FINAL;
CREATE VIEW IF NOT EXISTS gpupeak.failures AS SELECT * FROM gpupeak.failures_rows FINAL;
