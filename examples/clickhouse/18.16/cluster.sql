-- On each server of the cluster `gpupeak` (<remote_servers> in its configuration), after tables.sql: all servers' rows as one database. A run
-- lies on one server, so that what is delivered again finds what it takes the place of. Load into gpupeak_all, ask gpupeak_all.
--   clickhouse-client -n < cluster.sql && clickhouse-client -n -d gpupeak_all < views.sql
CREATE DATABASE IF NOT EXISTS gpupeak_all;
CREATE TABLE IF NOT EXISTS gpupeak_all.runs_rows AS gpupeak.runs_rows ENGINE = Distributed(gpupeak, gpupeak, runs_rows, cityHash64(run));
CREATE TABLE IF NOT EXISTS gpupeak_all.ranks_rows AS gpupeak.ranks_rows ENGINE = Distributed(gpupeak, gpupeak, ranks_rows, cityHash64(run));
CREATE TABLE IF NOT EXISTS gpupeak_all.peaks_rows AS gpupeak.peaks_rows ENGINE = Distributed(gpupeak, gpupeak, peaks_rows, cityHash64(run));
CREATE TABLE IF NOT EXISTS gpupeak_all.holders_rows AS gpupeak.holders_rows ENGINE = Distributed(gpupeak, gpupeak, holders_rows, cityHash64(run));
CREATE TABLE IF NOT EXISTS gpupeak_all.phases_rows AS gpupeak.phases_rows ENGINE = Distributed(gpupeak, gpupeak, phases_rows, cityHash64(run));
CREATE TABLE IF NOT EXISTS gpupeak_all.pools_rows AS gpupeak.pools_rows ENGINE = Distributed(gpupeak, gpupeak, pools_rows, cityHash64(run));
CREATE TABLE IF NOT EXISTS gpupeak_all.failures_rows AS gpupeak.failures_rows ENGINE = Distributed(gpupeak, gpupeak, failures_rows, cityHash64(run));
