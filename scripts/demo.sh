#!/usr/bin/env bash
# The story of gated in one run: real guests, a real process, real SSH keys. Every step checks that what
# it says is so; the first one that is not ends the demo with exit code 1. It works in a temporary
# directory and leaves nothing behind. Run it with: make demo
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
for program in ssh-keygen sha256sum; do
	command -v "$program" >/dev/null || { echo "demo: $program is needed (Debian: openssh-client, coreutils)" >&2; exit 1; }
done
dir=$(mktemp -d "${TMPDIR:-/tmp}/gated-demo.XXXXXX")
name=demo
. "$root/scripts/story.sh"

ended() { # guests outlive their daemon
	for process in $(pgrep -f "$dir"); do
		[ "$process" = $$ ] || kill -KILL "$process" 2>/dev/null
	done
}
sum() { (cd "$state/guests" && find "$1/data" -type f ! -name ticks -exec sha256sum {} + | sort | sha256sum); }

say "1. Keys, made with ssh-keygen: alice is an operator, mallory is nobody"
ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f "$dir/alice"
ssh-keygen -q -t ed25519 -N '' -C mallory@example.com -f "$dir/mallory"
brief 8 0 gated init --state "$state" --host demo --operator "$dir/alice.pub"
cat >>"$state/gated.yaml" <<EOF
local:
  commands:
    ticker: {argv: [/bin/sh, -c, "while :; do date >> ticks; sleep 1; done", "$dir"]}
EOF
# Root's own uid runs no guests. Nobody else on this machine uses these.
[ "$(id -u)" != 0 ] || echo "  guest_uids: 1900000000-1900000009" >>"$state/gated.yaml"
start
note "the daemon runs as process $daemon"

say "2. Desired state with three guests: made at once, because nothing can be lost"
cat >"$dir/fleet.yaml" <<'EOF'
apiVersion: gated/v1
host: demo
guests:
  - {name: web, state: running, memory: 256MiB, command: ticker, labels: {tier: prod}}
  - {name: db, state: stopped, memory: 512MiB}
  - {name: cache, state: stopped}
EOF
expect 0 gated apply -f "$dir/fleet.yaml" --wait
for guest in web db cache; do
	[ -d "$state/guests/$guest/data" ] || fail "$guest was not made"
	head -c 20000 /dev/urandom >"$state/guests/$guest/data/precious"
	echo "kept by $guest" >"$state/guests/$guest/data/notes.txt"
done
for _ in $(seq 600); do [ -s "$state/guests/web/data/ticks" ] && break; sleep 0.1; done
[ -s "$state/guests/web/data/ticks" ] || fail "the process of web does not run"
expect 0 gated guests
printed running

pgrep -f "while.*$dir" >/dev/null || fail "the process of web is not there"

say "3. A change that loses nothing runs at once"
sed -i 's/512MiB/768MiB/' "$dir/fleet.yaml"
expect 0 gated apply -f "$dir/fleet.yaml" --wait
silent 0 gated guests db --json
printed '"memory":768'

say "4. Somebody marks db absent: that would lose data, so it waits"
db_before=$(sum db); web_before=$(sum web); cache_before=$(sum cache)
sed -i 's/{name: db.*/{name: db, state: absent}/' "$dir/fleet.yaml"
expect 0 gated plan -f "$dir/fleet.yaml"
expect 3 gated apply -f "$dir/fleet.yaml" --wait
brief 2 3 gated submit guest.destroy db --reason "not needed any more"
expect 0 opsign list
silent 0 opsign list --json
request=$(field id)
[ -n "$request" ] || fail "nothing waits"
expect 0 opsign show "$request"
[ -d "$state/guests/db" ] || fail "db is gone without a signature"

note "the guest is still there, untouched"

say "5. Unsigned, or signed by the wrong key, nothing happens"
opsign show "$request" --payload >"$dir/op.json"
brief 2 1 opsign approve "$request" --key "$dir/mallory" --yes
printed unknown_signer
[ "$(sum db)" = "$db_before" ] || fail "db changed"

say "6. Alice signs exactly this step, and it runs"
ssh-keygen -q -Y sign -n operational@gated -f "$dir/alice" "$dir/op.json"
brief 1 0 opsign approve "$request" --key "$dir/alice" --yes
printed 'destroyed guest/db, can be undone until'
[ ! -e "$state/guests/db" ] || fail "db is still there"
[ "$(sum web)" = "$web_before" ] && [ "$(sum cache)" = "$cache_before" ] || fail "a bystander changed"
note "web and cache are untouched, byte by byte"

say "7. It was a mistake? Undelete brings the same guest back"
sed -i '/name: db/d' "$dir/fleet.yaml"
note "(db leaves the desired state: what that does not mention is left alone)"
expect 0 gated apply -f "$dir/fleet.yaml" --wait
expect 0 gated submit guest.undelete db --wait
[ "$(sum db)" = "$db_before" ] || fail "db came back changed"
note "db holds what it held, byte by byte"

say "8. The same approval again: an approval counts once"
expect 1 opsign submit "$dir/op.json" --sig "$dir/op.json.sig"
printed replayed
stop
start
note "the daemon was restarted"
expect 1 opsign submit "$dir/op.json" --sig "$dir/op.json.sig"
printed replayed
[ "$(sum db)" = "$db_before" ] || fail "a replay destroyed db"

say "9. OpenSSH alone can approve, and check, anything"
sed -i '/name: cache/d; s/state: running/state: stopped/' "$dir/fleet.yaml"
silent 0 gated apply -f "$dir/fleet.yaml" --wait
brief 2 3 gated submit guest.destroy cache --reason "by OpenSSH alone"
silent 0 opsign list --json
request=$(field id)
opsign show "$request" --payload >"$dir/cache.json"
expect 0 ssh-keygen -Y sign -n operational@gated -f "$dir/alice" "$dir/cache.json"
printf '  $ ssh-keygen -Y verify -f $DEMO/state/allowed_signers -I alice@example.com -n operational@gated -s cache.json.sig < cache.json\n'
ssh-keygen -Y verify -f "$state/allowed_signers" -I alice@example.com -n operational@gated -s "$dir/cache.json.sig" \
	<"$dir/cache.json" | sed 's/^/    /' || fail "ssh-keygen does not accept the signature"
expect 0 opsign submit "$dir/cache.json" --sig "$dir/cache.json.sig"
[ ! -e "$state/guests/cache" ] || fail "cache is still there"

say "10. Every decision is in the audit log, and the log is whole"
expect 0 gated audit verify --state "$state"
expect 0 gated fsck --state "$state"
silent 0 gated guests web --json
printed '"state":"stopped"'
stop
if pgrep -f "$dir" >/dev/null 2>&1; then fail "something is still running"; fi
say "Done: nothing was destroyed that was not signed for, and nothing runs any more."
