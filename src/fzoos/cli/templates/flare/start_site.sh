#!/bin/sh
# Starts a site, and starts it again if it dies:
#
#   ./start_site.sh kits/{{name}}/prod_00/site-1
set -eu
cd "$(dirname "$0")"
export FZOOS_SITE="$PWD/site/site.toml"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
exec "$1/startup/sub_start.sh"
