#!/usr/bin/env bash
# Compares gated with ssh-keygen -Y verify over the whole corpus, which takes
# some minutes: scripts/differential.sh [SEED]
#
# SEED is the first of the corpus; another one makes other files. It prints what
# was counted, and fails if gated accepts what ssh-keygen refuses.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/guarded.sh
export GATED_DIFFERENTIAL=full GATED_DIFFERENTIAL_SEED=${1:-0}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! go test ./internal/authz -count=1 -timeout 60m -v -run '^TestNeverLooserThanSSHKeygen$' >"$log" 2>&1; then
	cat "$log" >&2
	exit 1
fi
sed -n 's/^ *differential_test.go:[0-9]*: //p' "$log" | grep . || { echo "nothing was compared" >&2; exit 1; }
