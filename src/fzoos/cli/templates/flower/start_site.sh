#!/bin/sh
# Starts a site (Flower's SuperNode), and starts it again if it dies:
#
#   ./start_site.sh site-1 [server:port]
set -eu
cd "$(dirname "$0")"
. ./env.sh
site=$1
server=${2:-127.0.0.1:8443}
export SITE="$site"
# Its own processes talk to each other on a port of this machine only, any that is free.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# A site that was killed is taken back when its heartbeat has been missed, after a minute at most: hence the loop.
until flower-supernode --superlink "$server" --root-certificates keys/ca.pem \
  --auth-supernode-private-key "keys/$site" --host 127.0.0.1 --port "$port" \
  --node-config "site=\"$site\" study=\"study.toml\" journal=\"site/$site.journal\" objective=\"site/objective.py\""; do
  sleep 5
done
