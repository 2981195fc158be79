#!/bin/sh
# Compare the answers of an endpoint with those of the verified artifact: ./check.sh [URL]. Exit status 0 or 1.
exec python3 "$(dirname "$0")/check.py" "$@"
