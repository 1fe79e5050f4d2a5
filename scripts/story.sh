# What the demos have in common; they source it. The demo sets name (of its make
# target), dir (a temporary directory of its own, short: the path of a socket has
# 107 bytes) and root (of the repository) before.
bin=${GATED_BIN:-$root/bin}
state=$dir/state
export GATED_SOCKET=$dir/gated.sock XDG_CONFIG_HOME=$dir/config XDG_STATE_HOME=$dir/xdg # what opsign remembers
unset GATED_HOST
export PATH=$bin:$PATH
daemon=

. "$root/scripts/tell.sh"

# start and stop are about the daemon. What it says is in daemon.log.
start() {
	gated serve --state "$state" --socket "$GATED_SOCKET" >>"$dir/daemon.log" 2>&1 &
	daemon=$!
	for _ in $(seq 1200); do
		if gated status >/dev/null 2>&1; then return; fi
		kill -0 "$daemon" 2>/dev/null || { cat "$dir/daemon.log" >&2; fail "the daemon did not start"; }
		sleep 0.05
	done
	fail "the daemon did not answer"
}

stop() {
	[ -n "$daemon" ] || return 0
	kill -TERM "$daemon" 2>/dev/null || true
	wait "$daemon" || true
	daemon=
}

# A demo says in ended what else ends with it.
ended() { :; }
cleanup() {
	local code=$?
	set +e
	stop
	ended
	if [ "$code" != 0 ] && [ -f "$dir/daemon.log" ]; then
		echo "--- the daemon's log ends with" >&2
		tail -n 20 "$dir/daemon.log" >&2
	fi
	rm -rf "$dir"
	exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
