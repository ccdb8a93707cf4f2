#!/bin/sh
# Drops the days that are older than so many days, of all tables. Once a day, by cron.
# usage: retention.sh [DAYS [OPTION OF clickhouse-client]...]
days=${1:-365}
[ $# -eq 0 ] || shift
clickhouse-client "$@" -q "SELECT DISTINCT concat('ALTER TABLE gpupeak.', table, ' DROP PARTITION ''', partition, ''';')
  FROM system.parts WHERE database = 'gpupeak' AND active AND toDate(partition) < today() - $days FORMAT TSVRaw" | clickhouse-client "$@" -n
