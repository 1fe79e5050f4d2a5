#!/usr/bin/env bash
# How often does a right tree fail on a busy machine? scripts/steady.sh [TIMES [LOAD [COMMAND...]]]
#
# Runs COMMAND (.ci/run) so many times (3) under a load of its own (8, which counts the processors that COMMAND keeps
# busy), and prints how often each test failed or was unsteady. Exit code 1 if a run failed.
set -euo pipefail
cd "$(dirname "$0")/.."
times=${1:-3}
load=${2:-8}
shift $(($# < 2 ? $# : 2))
[ "$#" -gt 0 ] || set -- .ci/run
case $times/$load in 0*/* | *[!0-9/]*)
	echo "usage: scripts/steady.sh [TIMES [LOAD [COMMAND...]]]" >&2
	exit 2
	;;
esac

work=$(mktemp -d)
busy=()
run=
finish() {
	[ "${#busy[@]}" -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true
	[ -z "$run" ] || kill -- "-$run" 2>/dev/null || true # with all that it started
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
for ((n = $(nproc); n < load; n++)); do
	# Nobody can catch SIGKILL, so the kernel ends it with this script, which may have ended before the kernel was told.
	setpriv --pdeathsig KILL bash -c '[ "$PPID" = "$1" ] || exit; while :; do :; done' load "$$" &
	busy+=("$!")
done

failed=0
for ((n = 1; n <= times; n++)); do
	began=$SECONDS
	setpriv --pdeathsig TERM setsid "$@" >"$work/$n" 2>&1 </dev/null &
	run=$!
	if wait "$run"; then
		echo "run $n: passed in $((SECONDS - began)) s, load $(cut -d' ' -f1 /proc/loadavg)"
	else
		failed=$((failed + 1))
		echo "run $n: FAILED in $((SECONDS - began)) s, load $(cut -d' ' -f1 /proc/loadavg)"
		grep -a -A 12 -E '^(FAILED|UNSTEADY) ' "$work/$n" || tail -n 30 "$work/$n"
	fi
done
echo
echo "of $times runs of $* at load $load, $failed failed"
# A run says the same more than once.
for ((n = 1; n <= times; n++)); do
	grep -aohE '^(FAILED|UNSTEADY) [^(:]*' "$work/$n" | sort -u || true
done | sort | uniq -c | sort -rn
[ "$failed" -eq 0 ]
