#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: scripts/fuzz.sh [DURATION [LONG]]
#
# The targets below, which read what somebody writes to be believed, run LONG
# instead, if it is given.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:-10s}
long=${2:-$duration}
readers="internal/authz:FuzzLoadTrust internal/authz:FuzzArmor internal/authz:FuzzCertificate internal/op:FuzzPayload"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz PACKAGE TARGET DURATION. An input is made smaller in a few tries: left
# alone, Go spends a minute on each, in which it looks for no other.
fuzz() {
	go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "$3" -fuzzminimizetime 20x >"$log" 2>&1
}

count=0
read_long=0
while IFS=: read -r file target; do
	package=./$(dirname "$file")
	count=$((count + 1))
	time=$duration
	if [[ " $readers " == *" ${package#./}:$target "* ]]; then
		time=$long
		read_long=$((read_long + 1))
	fi
	# The time running out in the middle of an input is reported as a failure
	# that has no input to show; that one is worth a second run, no other is.
	if ! fuzz "$package" "$target" "$time"; then
		if ! grep -q 'context deadline exceeded' "$log" || grep -q 'Failing input written' "$log" || ! fuzz "$package" "$target" "$time"; then
			cat "$log" >&2
			echo "$package $target failed" >&2
			exit 1
		fi
	fi
	printf '%s %s: %s\n' "$package" "$target" "$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
done < <(grep -rEo --include='*_test.go' --exclude-dir=testdata '^func Fuzz[A-Za-z0-9_]+' cmd internal | sed 's/:func /:/' | sort)

if [ "$count" -eq 0 ]; then
	echo "no fuzz target was found" >&2
	exit 1
fi
if [ "$read_long" -ne "$(wc -w <<<"$readers")" ]; then
	echo "of $readers only $read_long were found" >&2
	exit 1
fi
echo "$count fuzz targets, $duration each, $read_long of them $long"
