#!/bin/sh
# Entry point of the container: run a pipeline as a job with checkpoints and health.
#
#   penstock-job FILE [FLAGS]        a file, such as pipeline.py
#   penstock-job -m MODULE [FLAGS]   a module
#
# PENSTOCK_CHECKPOINT_DIR   the directory of the checkpoints, a path of a volume or a URL; required
# PENSTOCK_HEALTH_PORT      the port of /healthz and /readyz: 8080
# PENSTOCK_HEALTH_HOST      their address: 0.0.0.0, since probes come from outside of the container
set -eu

fail() {
    echo "penstock-job: $1" >&2
    exit 64
}

[ $# -gt 0 ] || fail "expected a pipeline: penstock-job FILE [FLAGS], or penstock-job -m MODULE [FLAGS]"
[ -n "${PENSTOCK_CHECKPOINT_DIR:-}" ] ||
    fail "PENSTOCK_CHECKPOINT_DIR is not set; expected a path of a volume, or a URL: files of the container end with it"

if [ "$1" = -m ]; then
    [ $# -gt 1 ] || fail "expected a module after -m"
    option=-m
    shift
fi
program=$1
shift
# Flags of the command line come last, and win.
exec penstock run ${option:+"$option"} "$program" \
    --checkpoint_dir="$PENSTOCK_CHECKPOINT_DIR" \
    --health_port="${PENSTOCK_HEALTH_PORT:-8080}" \
    --health_host="${PENSTOCK_HEALTH_HOST:-0.0.0.0}" \
    "$@"
