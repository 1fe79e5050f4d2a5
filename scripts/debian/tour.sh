#!/usr/bin/env bash
# The five minutes of README as their reader types them: two terminals of an ordinary user in a bare login, who has no
# XDG_RUNTIME_DIR, and other background jobs in both.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/tour.XXXXXX)
pages=/src
. /src/scripts/debian/typed.sh

say "README's five minutes, in two terminals of a user with a bare login"
install -m 0755 /src/bin/gated /src/bin/opsign /usr/local/bin/
useradd --create-home --shell /bin/bash reader
login reader 0 "mkdir -m 0700 .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519"
login reader 0 'test -z "$XDG_RUNTIME_DIR"'
terminal daemon reader
terminal reader reader
for t in daemon reader; do
	type "$t" "sleep 3600 &"
done

block README.md "Five minutes" 1 >/dev/null
grep -v '^gated serve$' "$dir/block" >"$dir/rest"
grep -q '^gated serve$' "$dir/block" || fail "the first block starts no daemon"
mv "$dir/rest" "$dir/block"
follow daemon
tmux send-keys -t daemon "gated serve" Enter
shows daemon 'msg="the audit log is whole"'
shows daemon 'msg=serving '

n=2
stopped=
while (block README.md "Five minutes" "$n") >/dev/null 2>&1; do
	# The last block removes the gate, and the text before it ends the daemon with Ctrl-C.
	if grep -q '^rm -r ' "$dir/block"; then
		stopped=yes
		tmux send-keys -t daemon C-c
		settled daemon '^\[0:[0-9]+\]\$$'
		note "Ctrl-C in the daemon's terminal"
	fi
	follow reader
	n=$((n + 1))
done
[ -n "$stopped" ] && [ "$n" -gt 8 ] || fail "README's tour has $((n - 1)) blocks only, or does not clean up"
for t in daemon reader; do
	type "$t" jobs
	screen "$t" | tail -n 3 | grep -q 'sleep 3600' || fail "the other job of the terminal $t is gone"
	type "$t" "kill %1"
done
silent 0 find ~reader -name '*gated*' -not -path '*/.config/*'
[ ! -s "$dir/out" ] || { cat "$dir/out" >&2; fail "the reader's home still has files of the gate"; }
if pgrep -u reader gated; then fail "a process of the tour still runs"; fi
tmux kill-server
note "nothing is left of it"
