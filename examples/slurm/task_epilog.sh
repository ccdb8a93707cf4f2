#!/bin/sh
# srun --task-epilog: for who may not set the cluster's Epilog. Each task delivers its own logs when it has ended.
here=$(dirname "$0")
folder=${GPUPEAK_FOLDER:-/var/tmp}/gpupeak.$SLURM_JOB_ID
task=$(mktemp -d) || exit 0
ln -s "$folder/$SLURM_PROCID".*.gplog "$task" 2>/dev/null
PART="%h.$SLURM_PROCID" "$here/../nodes/part.sh" "slurm-$SLURM_JOB_ID" "$task" "${GPUPEAK_TABLES:-$folder/tables}" "${SLURM_NTASKS:-1}"
rm -r "$task"
exit 0
