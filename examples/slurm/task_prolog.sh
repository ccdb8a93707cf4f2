#!/bin/sh
# TaskProlog: records each task of a job, unchanged. What it prints goes into the task's environment. Where somebody else has made the job's
# folder nothing is recorded.
folder=${GPUPEAK_FOLDER:-/var/tmp}/gpupeak.$SLURM_JOB_ID
mkdir -p -m 700 "$folder" 2>/dev/null
{ [ -O "$folder" ] && [ ! -L "$folder" ] && echo "${SLURM_NTASKS:-1}" >"$folder/ranks"; } || exit 0
echo "export LD_PRELOAD=${GPUPEAK_LIBRARY:-/usr/local/lib/libgpupeak.so}${LD_PRELOAD:+:$LD_PRELOAD}"
echo "export GPUPEAK_OUT=$folder/%r.%p.gplog"
echo "export GPUPEAK_SUMMARY=off"
