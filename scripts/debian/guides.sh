#!/usr/bin/env bash
# Guides that begin with a gate to try them on, typed from the first block to the last by a user in a bare login, with
# another background job than the daemon. Stories in cmd/*/testdata/script check what each line does; here no line may be
# a usage error, find no daemon or no program, or fail inside.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/guides.XXXXXX)
pages=/src/docs/guides
. /src/scripts/debian/typed.sh
install -m 0755 /src/bin/gated /src/bin/opsign /usr/local/bin/
id -u reader >/dev/null 2>&1 || useradd --create-home --shell /bin/bash reader

for guide in people certificates; do
	say "docs/guides/$guide.md"
	terminal "$guide" reader
	blocks "$guide.md"
	first=yes
	for file in "$dir"/blocks/*; do
		# With a security key, of which this Debian has none.
		! grep -qE 'ed25519-sk|DORA|guest/vault|(create|destroy) vault' "$file" || continue
		cp "$file" "$dir/block"
		follow "$guide" '0|1|3'
		if [ -n "$first" ] && grep -q '^gated serve' "$file"; then
			type "$guide" "sleep 3600 &"
			first=
		fi
	done
	[ -z "$first" ] || fail "$guide.md starts no daemon"
	type "$guide" jobs
	screen "$guide" | tail -n 3 | grep -q 'Running *sleep 3600' || fail "the guide ended another job than its daemon"
	type "$guide" 'kill %sleep'
	for _ in $(seq 100); do pgrep -u reader gated >/dev/null || break; sleep 0.05; done
	! pgrep -u reader gated || fail "a daemon of $guide.md still runs"
done
tmux kill-server
