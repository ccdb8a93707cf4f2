#!/bin/sh
# What a node does when its job ends: a small file of each table, of the logs that it has. To run it again changes nothing. Where there are no
# logs it does nothing, so that it never fails a job.
# usage: part.sh RUN LOGS TABLES [RANKS]     RANKS: how many the whole job has, on all nodes
set -eu
run=$1 logs=$2 tables=$3 ranks=${4:-}
set --
for log in "$logs"/*.gplog; do
  [ ! -e "$log" ] || set -- "$@" "$log"
done
[ $# -gt 0 ] || exit 0
exec gpupeak tables -q --format ndjson --run "$run" --partial "${PART:-%h}" ${ranks:+--ranks "$ranks"} "$tables" "$@"
