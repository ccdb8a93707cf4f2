#!/bin/sh
# TaskProlog: records each task of a job, unchanged. What it prints goes into the task's environment.
folder=${GPUPEAK_FOLDER:-/var/tmp/gpupeak}/$SLURM_JOB_ID
mkdir -p "$folder" && echo "${SLURM_NTASKS:-1}" >"$folder/ranks"
echo "export LD_PRELOAD=${GPUPEAK_LIBRARY:-/usr/local/lib/libgpupeak.so}${LD_PRELOAD:+:$LD_PRELOAD}"
echo "export GPUPEAK_OUT=$folder/%r.%p.gplog"
echo "export GPUPEAK_SUMMARY=off"
