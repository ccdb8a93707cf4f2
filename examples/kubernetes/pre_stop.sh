#!/bin/sh
# preStop of the sidecar: when the programs of the pod have ended, or after WAIT_SECONDS, delivers the pod's part.
here=$(dirname "$0")
logs=${LOGS:-/gpupeak}
left=${WAIT_SECONDS:-90}
while gpupeak serve --textfile - "$logs" | grep -q '^gpupeak_logs{state="\(running\|elsewhere\)"} [1-9]' && [ "$left" -gt 0 ]; do
  sleep 1
  left=$((left - 1))
done
PART=$POD_NAME "$here/../nodes/part.sh" "$JOB_NAME-$JOB_UID" "$logs" "$logs/tables" "${RANKS:-}" &&
  "$here/../clickhouse/load.sh" "$CLICKHOUSE" "$logs/tables"
