#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: scripts/fuzz.sh [DURATION [LONG]]
#
# The targets below, which read what somebody writes to be believed, or have many
# end points to get through, run LONG instead, if it is given. A package's targets
# are built once: linking each anew would take as long as a short run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/guarded.sh
duration=${1:-10s}
long=${2:-$duration}
readers="internal/authz:FuzzLoadTrust internal/authz:FuzzArmor internal/authz:FuzzCertificate internal/base/op:FuzzPayload internal/host/server:FuzzHandlers"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
cache=$(go env GOCACHE)/fuzz
module=$(go list -m)

# fuzz DIRECTORY TARGET DURATION. An input is made smaller in a few tries: left
# alone, Go spends a minute on each, in which it looks for no other.
fuzz() {
	(cd "$1" && "$work/test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$3" -test.fuzzminimizetime 20x \
		-test.fuzzcachedir "$cache/$module/$1" >"$log" 2>&1)
}

count=0
read_long=0
built=
while IFS=: read -r file target; do
	dir=$(dirname "$file")
	if [ "$dir" != "$built" ]; then
		go test -c -fuzz . -o "$work/test" "./$dir"
		built=$dir
	fi
	count=$((count + 1))
	time=$duration
	if [[ " $readers " == *" $dir:$target "* ]]; then
		time=$long
		read_long=$((read_long + 1))
	fi
	# Go 1.26 reports some ends of the time as a failure without an input
	# (https://go.dev/issue/75804), the more often the busier the machine is.
	tries=1
	until fuzz "$dir" "$target" "$time"; do
		if ! grep -q 'context deadline exceeded' "$log" || grep -q 'Failing input written' "$log" || [ "$tries" -ge 5 ]; then
			cat "$log" >&2
			echo "$dir $target failed" >&2
			exit 1
		fi
		tries=$((tries + 1))
	done
	printf '%s %s: %s\n' "$dir" "$target" "$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
done < <(grep -rEo --include='*_test.go' --exclude-dir=testdata '^func Fuzz[A-Za-z0-9_]+' . | sed 's/^\.\///; s/:func /:/' | sort)

if [ "$count" -eq 0 ]; then
	echo "no fuzz target was found" >&2
	exit 1
fi
if [ "$read_long" -ne "$(wc -w <<<"$readers")" ]; then
	echo "of $readers only $read_long were found" >&2
	exit 1
fi
echo "$count fuzz targets, $duration each, $read_long of them $long"
