#!/bin/bash
# A PostgreSQL server for tests, with TLS at a port of 127.0.0.1 and at a socket in its folder:
#
#   postgres_server.sh check            does nothing
#   postgres_server.sh make             prints a new folder: an empty cluster, a certificate for 127.0.0.1
#   postgres_server.sh run FOLDER PORT [OPTION...]
#                                       becomes the server, which ends with the process that started it
#
# Where PostgreSQL is not installed, the exit code is 77, and the last line says what is missing. The role
# tc_admin, with the password "admin", may do everything; ROOT.crt in the folder is the authority of the
# server's certificate.
set -euo pipefail

missing() { echo "$*"; exit 77; }

# Debian has the programs in a folder of their own.
programs() {
  local folder
  for folder in "$(dirname "$(readlink -f "$(command -v postgres || echo /nowhere/postgres)")")" /usr/lib/postgresql/*/bin; do
    [[ -x $folder/postgres && -x $folder/initdb ]] && echo "$folder" && return
  done
  missing "postgres and initdb are not installed (apt-get install postgresql-15)"
}

# The server refuses to run as root.
as_user=()
if ((EUID == 0)); then
  user=$(id -nu postgres 2>/dev/null || echo nobody)
  as_user=(--reuid="$user" --regid="$(id -g "$user")" --clear-groups)
fi

bin=$(programs) || missing "$bin"
command -v setpriv >/dev/null || missing "setpriv is not installed (apt-get install util-linux)"
command -v openssl >/dev/null || missing "openssl is not installed (apt-get install openssl)"

case $1 in
  check) ;;
  make)
    folder=$(mktemp -d /tmp/tc-pg.XXXXXX)   # where the user of the server may go
    cd "$folder"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tests -keyout root.key -out ROOT.crt \
      -addext basicConstraints=critical,CA:TRUE 2>/dev/null
    openssl req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr 2>/dev/null
    openssl x509 -req -in server.csr -CA ROOT.crt -CAkey root.key -CAcreateserial -days 2 -out server.crt \
      -extfile <(printf 'subjectAltName = IP:127.0.0.1, DNS:localhost\n') 2>/dev/null
    echo admin >password
    chmod 755 .
    chmod 600 server.key
    ((EUID != 0)) || chown -R "$user" .
    setpriv "${as_user[@]}" "$bin/initdb" -D "$folder/data" -U tc_admin --auth=scram-sha-256 --pwfile="$folder/password" \
      -E UTF8 --locale=C.UTF-8 --data-checksums >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
    cat >>data/postgresql.conf <<CONFIGURATION
listen_addresses = '127.0.0.1'
unix_socket_directories = '$folder'
ssl = on
ssl_cert_file = '$folder/server.crt'
ssl_key_file = '$folder/server.key'
shared_buffers = 64MB
max_connections = 60
CONFIGURATION
    printf 'local all all scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n' >data/pg_hba.conf
    echo "$folder"
    ;;
  run)
    exec setpriv "${as_user[@]}" --pdeathsig QUIT "$bin/postgres" -D "$2/data" -p "${@:3}"
    ;;
esac
