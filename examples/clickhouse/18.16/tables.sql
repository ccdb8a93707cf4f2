-- The tables of `gpupeak tables` in ClickHouse 18.16, which is Debian's: no compression by column (the server's configuration has it for all,
-- <compression>), no LowCardinality, no TTL (retention.sh drops days), no maps. A label that is to be asked for is a column here, as labels.commit.
--   clickhouse-client -n < tables.sql && clickhouse-client -n -d gpupeak < views.sql
CREATE DATABASE IF NOT EXISTS gpupeak;

CREATE TABLE IF NOT EXISTS gpupeak.runs_rows (
  run String, part String, program Nullable(String), command Nullable(String), started Nullable(DateTime), duration_s Nullable(Float64),
  ranks UInt64, expected_ranks Nullable(UInt64), failed_ranks UInt64, device_peak_bytes Nullable(UInt64), host_peak_bytes Nullable(UInt64),
  exact Nullable(UInt8), complete Nullable(UInt8), `labels.commit` Nullable(String), version Nullable(String), day Date
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (day, run, part);

CREATE TABLE IF NOT EXISTS gpupeak.ranks_rows (
  run String, log String, rank Nullable(Int32), host Nullable(String), pid UInt64, started Nullable(DateTime), duration_s Nullable(Float64),
  exit_kind Nullable(String), exit_code Nullable(Int32), device_peak_bytes Nullable(UInt64), host_peak_bytes Nullable(UInt64),
  rss_peak_bytes Nullable(UInt64), card Nullable(String), card_bytes Nullable(UInt64), card_overhead_bytes Nullable(Int64),
  lost_events Nullable(UInt64), exact Nullable(UInt8), complete Nullable(UInt8), day Date
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (day, run, log, pid);

CREATE TABLE IF NOT EXISTS gpupeak.peaks_rows (
  run String, log String, rank Nullable(Int32), scope String, bytes UInt64, error_bytes Nullable(UInt64), time_s Nullable(Float64),
  phase Nullable(String), day Date
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (day, run, log, scope);

CREATE TABLE IF NOT EXISTS gpupeak.holders_rows (
  run String, log String, rank Nullable(Int32), number UInt64, scope String, name Nullable(String), kind Nullable(String),
  module Nullable(String), phase Nullable(String), bytes UInt64, error_bytes Nullable(UInt64), blocks Nullable(UInt64), day Date
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (day, run, log, number);

CREATE TABLE IF NOT EXISTS gpupeak.phases_rows (
  run String, log String, rank Nullable(Int32), number UInt64, phase String, parent Nullable(String), source Nullable(String),
  depth Nullable(Int32), instances Nullable(UInt64), open_s Nullable(Float64), device_peak_bytes Nullable(UInt64),
  device_kept_bytes Nullable(UInt64), host_peak_bytes Nullable(UInt64), host_kept_bytes Nullable(UInt64), day Date
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (day, run, log, number);

CREATE TABLE IF NOT EXISTS gpupeak.pools_rows (
  run String, log String, rank Nullable(Int32), number UInt64, pool Nullable(String), device Nullable(Int32), in_use_peak_bytes Nullable(UInt64),
  idle_then_bytes Nullable(UInt64), reserved_peak_bytes Nullable(UInt64), refused Nullable(UInt64), day Date
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (day, run, log, number);

CREATE TABLE IF NOT EXISTS gpupeak.failures_rows (
  run String, log String, rank Nullable(Int32), number UInt64, time_s Nullable(Float64), device Nullable(Int32), api Nullable(String),
  requested_bytes Nullable(UInt64), free_bytes Nullable(UInt64), total_bytes Nullable(UInt64), cause Nullable(String),
  phase Nullable(String), name Nullable(String), day Date
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (day, run, log, number);
