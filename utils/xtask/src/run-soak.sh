#!/bin/sh
# Runs the soak program with the given options; --help lists them.
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/bin/soak" "$@"
