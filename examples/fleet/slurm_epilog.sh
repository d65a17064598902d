#!/bin/bash
# Slurm epilog (slurm.conf: Epilog=.../slurm_epilog.sh): checks the GPUs of a node after a job.
#
# Where other processes still use a GPU, nothing is measured; if one starts while a GPU is measured, the check gives way. Results go to a
# shared folder. A report on it, by cron on one host, names the cards that differ; delete old results there as well:
#     gpudissect fleet report "$RESULTS" --prometheus /var/lib/node_exporter/gpudissect.prom
#     find "$RESULTS" -name '*.json' -mtime +90 -delete
# A failed epilog drains the node. So this one ends with 0, whatever it measured.
RESULTS=${RESULTS:-/shared/gpudissect}
DEVICE=${DEVICE:-cuda:all}
export GPUDISSECT_CACHE=${GPUDISSECT_CACHE:-/var/cache/gpudissect} # compiled kernels, on a local disk

if [ -n "$(nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null)" ]; then
    exit 0
fi
folder=$RESULTS/$(date -u +%Y-%m-%d)/$(hostname -s)
mkdir -p "$folder" || exit 0
timeout --signal=INT --kill-after=10 120 gpudissect discover -d "$DEVICE" --profile health -o "$folder/$(date -u +%H%M%S).json" \
    >/dev/null 2>"$folder/last_messages.txt"
exit 0
