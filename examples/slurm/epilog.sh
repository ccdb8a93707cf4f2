#!/bin/sh
# Epilog: on each node when a job has ended there, however it ended. Writes the node's part into $GPUPEAK_TABLES, a shared folder or a mounted
# bucket; with GPUPEAK_CLICKHOUSE it is delivered there, too. Never fails the node: Slurm drains one whose Epilog fails.
here=$(dirname "$0")
folder=${GPUPEAK_FOLDER:-/var/tmp/gpupeak}/$SLURM_JOB_ID
[ -d "$folder" ] || exit 0
tables=${GPUPEAK_TABLES:-$folder/tables}
"$here/../nodes/part.sh" "slurm-$SLURM_JOB_ID" "$folder" "$tables" "$(cat "$folder/ranks")" || exit 0
[ -z "${GPUPEAK_CLICKHOUSE:-}" ] || "$here/../clickhouse/load.sh" "$GPUPEAK_CLICKHOUSE" "$tables" || exit 0
