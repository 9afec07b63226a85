#!/bin/sh
# Starts the server, and starts it again if it dies:
#
#   ./start_server.sh [its startup kit]
set -eu
cd "$(dirname "$0")"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
exec "${1:-kits/{{name}}/prod_00/localhost}/startup/sub_start.sh"
