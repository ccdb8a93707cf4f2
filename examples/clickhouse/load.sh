#!/bin/sh
# Delivers what `gpupeak tables --format ndjson` wrote to ClickHouse over HTTP, a request for each table. What is delivered again takes the place
# of what was there. Runs come last: a run, or part of one, that has its row is there as a whole. Ends with 1 where something was not taken.
# usage: load.sh URL TABLES [DATABASE]        such as: load.sh http://clickhouse:8123 history
set -eu
url=$1 tables=$2 database=${3:-gpupeak}
options='input_format_skip_unknown_fields=1&input_format_import_nested_json=1&date_time_input_format=best_effort'
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for table in ranks peaks holders phases pools failures runs; do
  find "$tables/$table" -name '[!.]*.ndjson.zst' -exec zstd -dcq {} + >"$place/rows"
  [ -s "$place/rows" ] || continue
  status=$(curl -sS --connect-timeout 10 --max-time "${MAX_SECONDS:-300}" --data-binary "@$place/rows" -o "$place/said" -w '%{http_code}' \
    "$url/?query=INSERT%20INTO%20$database.${table}_rows%20FORMAT%20JSONEachRow&insert_distributed_sync=1&$options") || exit 1
  [ "$status" = 200 ] || { echo "load.sh: $table: $(head -c 500 "$place/said")" >&2; exit 1; }
done
