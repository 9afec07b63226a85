#!/bin/sh
# Makes the server's certificate, signed by an authority of your own, and a key for each site.
#
#   ./make_keys.sh                      this machine, with site-1, site-2 and site-3
#   ./make_keys.sh study.example.org    a server of that name; every site makes its own key (see the README)
#
# Runs again without changing what is there.
set -eu
cd "$(dirname "$0")"
server=${1:-localhost}
umask 077
mkdir -p keys flower
if [ ! -e keys/ca.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 3650 -subj "/CN={{name}} authority" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout keys/ca.key -out keys/ca.pem
fi
if [ ! -e keys/server.pem ]; then
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -subj "/CN=$server" \
    -keyout keys/server.key -out keys/server.csr
  printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n' "$server" > keys/server.ext
  openssl x509 -req -in keys/server.csr -CA keys/ca.pem -CAkey keys/ca.key -days 825 -extfile keys/server.ext \
    -out keys/server.pem
  rm keys/server.csr keys/server.ext
fi
if [ "$server" = localhost ]; then
  for site in site-1 site-2 site-3; do
    [ -e "keys/$site" ] || ssh-keygen -q -t ecdsa -b 384 -N "" -C "$site" -f "keys/$site"
  done
fi
# Where the commands of `flwr` find the server; they are given on the server's own machine.
cat > flower/config.toml <<END
[superlink]
default = "study"
[superlink.study]
address = "127.0.0.1:8443"
root-certificates = "$PWD/keys/ca.pem"
END
