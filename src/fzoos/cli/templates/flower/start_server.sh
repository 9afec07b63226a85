#!/bin/sh
# Starts the server (Flower's SuperLink). Only sites whose keys are registered may connect.
set -eu
cd "$(dirname "$0")"
. ./env.sh
exec flower-superlink --host 127.0.0.1 --port 8443 \
  --ssl-ca-certfile keys/ca.pem --ssl-certfile keys/server.pem --ssl-keyfile keys/server.key \
  --enable-supernode-auth --disable-runtime-dependency-installation --database flower/superlink.db
