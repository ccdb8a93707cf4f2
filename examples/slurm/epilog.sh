#!/bin/sh
# Epilog: on each node when a job has ended there, however it ended. Writes the node's part into $GPUPEAK_TABLES, a shared folder or a mounted
# bucket; with GPUPEAK_CLICKHOUSE it is delivered there, too. Never fails the node: Slurm drains one whose Epilog fails, or does not end.
# It runs as root and the job's folder is its user's: nothing is written there, and nothing read that may be a pipe.
here=$(dirname "$0")
folder=${GPUPEAK_FOLDER:-/var/tmp}/gpupeak.$SLURM_JOB_ID
{ [ -d "$folder" ] && [ -n "${GPUPEAK_TABLES:-}${GPUPEAK_CLICKHOUSE:-}" ]; } || exit 0
tables=${GPUPEAK_TABLES:-$(mktemp -d)}
"$here/../nodes/part.sh" "slurm-$SLURM_JOB_ID" "$folder" "$tables" "$(timeout 1 head -c 9 "$folder/ranks")" &&
  [ -n "${GPUPEAK_CLICKHOUSE:-}" ] && "$here/../clickhouse/load.sh" "$GPUPEAK_CLICKHOUSE" "$tables"
[ -n "${GPUPEAK_TABLES:-}" ] || rm -r "$tables"
exit 0
