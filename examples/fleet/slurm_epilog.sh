#!/bin/bash
# Slurm epilog (slurm.conf: Epilog=.../slurm_epilog.sh): checks the GPUs of a node after a job.
#
# Each GPU gives way to other processes, so a node that is shared is left alone. Results go to a shared folder; a
# report over it, by cron on one host, names the cards that differ:
#     gpudissect fleet report "$RESULTS" --prometheus /var/lib/node_exporter/gpudissect.prom
# A failed epilog drains the node. So this one ends with 0, whatever it measured.
RESULTS=${RESULTS:-/shared/gpudissect}
DEVICE=${DEVICE:-cuda:all}
export GPUDISSECT_CACHE=${GPUDISSECT_CACHE:-/var/cache/gpudissect} # compiled kernels, on a local disk

folder=$RESULTS/$(date -u +%Y-%m-%d)/$(hostname -s)
mkdir -p "$folder" || exit 0
timeout --signal=INT 120 gpudissect discover -d "$DEVICE" --profile health -o "$folder/$(date -u +%H%M%S).json" \
    >/dev/null 2>"$folder/last_messages.txt"
exit 0
