#!/usr/bin/env bash
# The gate of package.sh cannot start, for one cause after the other. Callers call meanwhile, and switch nothing off. Root
# mends the cause, and the gate is back without a command that starts it.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/nostart.XXXXXX)
pages=/usr/share/doc/gated
. /src/scripts/debian/typed.sh
. /src/scripts/debian/hosts.sh

# refused USER SECONDS WORDS...: what one caller hears in that time while no daemon can start.
refused() {
	local code=0 words
	su - "$1" -c "timeout $2 gated status" >"$dir/out" 2>&1 || code=$?
	[ "$code" != 0 ] || { cat "$dir/out" >&2; fail "a gate answers that cannot start"; }
	note "gated status of $1 exits $code:"
	sed 's/^/    /' "$dir/out"
	for words in "${@:3}"; do
		grep -qF -- "$words" "$dir/out" || fail "it does not say: $words"
	done
	! grep -qF 'gated setup' "$dir/out" || fail "it names gated setup, and there is a gate"
}

# called: thirty callers at once until systemd tried again three times. By its own defaults it would give up after five starts in
# ten seconds, or twenty wakes of a socket in two, and the socket with it.
called() {
	local before tries
	before=$(tries)
	# shellcheck disable=SC2016 # the login's shell expands it
	su - agent -c 'while [ ! -e /tmp/enough ]; do for _ in $(seq 30); do timeout 1 gated guests & done; wait; done' >/dev/null 2>&1 &
	for _ in $(seq 1200); do
		tries=$(($(tries) - before))
		[ "$tries" -lt 3 ] || break
		sleep 0.1
	done
	touch /tmp/enough
	wait
	rm /tmp/enough
	[ "$tries" -ge 3 ] || fail "systemd gave up after $tries tries"
	[ "$(systemctl show --property Result,ActiveState --value gated.socket | xargs)" = "success active" ] ||
		{ systemctl --no-pager status gated.socket >&2; fail "calls switched the socket off"; }
	note "systemd tried again $tries times while thirty callers called, and the socket is as it was"
}

tries() { systemctl show --property NRestarts --value gated.service; }

# mended COMMAND: root mends the cause. From then on calls alone bring the gate back.
mended() {
	local from
	told root 0 "$1"
	from=$SECONDS
	until su - agent -c 'timeout 30 gated status' >"$dir/out" 2>&1; do
		[ $((SECONDS - from)) -lt 60 ] || { cat "$dir/out" >&2; fail "the gate does not come back"; }
		sleep 0.1
	done
	printed "^gated .*, gate $was,"
	note "gated status answers after $((SECONDS - from)) s"
	healthy
}

systemctl stop gated-metrics.timer # its service would fail beside a gate that does not run, and be no fault
login agent 0 'gated status --json'
was=$(field gate)

say "A typo in gated.yaml"
told root 0 "cp -p /var/lib/gated/gated.yaml /root/ && echo 'polciy: {}' >>/var/lib/gated/gated.yaml"
told root 1 'systemctl restart gated'
refused agent 60 'its settings are refused' 'sudo gated config check'
refused root 60 'unknown key polciy' 'gated config check'
told root 1 'gated config check /var/lib/gated/gated.yaml'
printed 'unknown key polciy; is "policy" meant?'
called
mended 'cat /root/gated.yaml >/var/lib/gated/gated.yaml'

say "A database that the daemon cannot read"
told root 0 'chmod 0 /var/lib/gated/gated.db'
told root 1 'systemctl restart gated'
refused agent 60 'the daemon cannot start' 'systemctl status gated'
refused root 60 'gated.db does not open' 'journalctl -u gated -n 20'
called
mended 'chmod 0600 /var/lib/gated/gated.db'

say "A program that is none"
told root 0 "install -d /run/systemd/system/gated.service.d
printf '[Service]\nExecStart=\nExecStart=/bin/false\n' >/run/systemd/system/gated.service.d/false.conf
systemctl daemon-reload"
told root 1 'systemctl restart gated'
refused agent 10 'systemctl status gated' 'journalctl -u gated -n 20'
called
mended 'rm /run/systemd/system/gated.service.d/false.conf && systemctl daemon-reload'

say "A socket that root switched off by hand, and then restarts in haste"
told root 0 'systemctl stop gated.socket gated'
told agent 4 'gated status'
printed 'sudo gated status'
told root 4 'gated status'
printed 'systemctl start gated'
mended 'systemctl start gated'
# shellcheck disable=SC2016 # the login's shell expands it
told root 0 'for _ in $(seq 8); do systemctl restart gated.socket gated; done'
told agent 0 'gated status | head -n 1'
healthy
systemctl start gated-metrics.timer
