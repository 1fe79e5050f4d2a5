#!/usr/bin/env bash
# A daemon whose time since boot is a month further than the machine's, as after a boot with another clock. Only a
# process with the machine's own rights may make such a time, so this runs in the container but not below its systemd.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/clock.XXXXXX)
pages=/src
. /src/scripts/debian/typed.sh

say "A clock that the gate does not believe"
systemctl stop gated
unshare --time --fork --boottime 2592000 runuser -u gated -- gated serve --state /var/lib/gated \
	--socket /var/lib/gated/other.sock >"$dir/daemon" 2>&1 &
for _ in $(seq 200); do ! grep -q 'audit log is whole' "$dir/daemon" || break; sleep 0.05; done
pkill -u gated gated || { cat "$dir/daemon" >&2; fail "the daemon of the other time did not start"; }
wait
systemctl start gated
