# How a story is told, each step of it checked. The script that sources this sets name (of its make target) and dir (a
# temporary directory) before.
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
note() { printf '  %s\n' "$*"; }
fail() { printf '\n%s: FAILED: %s\n' "$name" "$*" >&2; exit 1; }

# silent CODE COMMAND... runs a command, keeps what it printed, and checks its exit code.
silent() {
	local want=$1 got=0
	shift
	"$@" >"$dir/out" 2>&1 || got=$?
	[ "$got" = "$want" ] && return
	cat "$dir/out" >&2
	fail "'$*' exited $got, not $want"
}

# expect CODE COMMAND... is silent and shows the command with what it printed; brief shows the last
# lines only, as many as its first word says.
expect() {
	printf '  $ %s\n' "$(words "${@:2}")"
	silent "$@"
	sed "s|$dir|\$DEMO|g; s/^/    /" "$dir/out"
}

brief() {
	local lines=$1
	shift
	printf '  $ %s\n' "$(words "${@:2}")"
	silent "$@"
	tail -n "$lines" "$dir/out" | sed "s|$dir|\$DEMO|g; s/^/    /"
}

words() { local w="$*"; printf '%s' "${w//$dir/\$DEMO}"; }
printed() { grep -q -- "$1" "$dir/out" || fail "the last command did not print '$1'"; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$dir/out" | head -n 1; }
