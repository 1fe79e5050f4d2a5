#!/bin/sh
# Fails where Go has no room to build, and says so in one sentence. Each linker would say it in many.
set -eu
dir=${GOTMPDIR:-${TMPDIR:-/tmp}}
free=$(df -Pk "$dir" | awk 'END { print int($4 / 1024) }')
[ "$free" -ge 1024 ] || { echo "$dir has $free MiB left, and a build takes up to 1024: free some, or name another directory by TMPDIR" >&2; exit 1; }
