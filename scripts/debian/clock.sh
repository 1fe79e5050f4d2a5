#!/usr/bin/env bash
# The guide to the clock as root follows it, on the gate of by-hand.sh; and what cron did meanwhile. All logins of this script are in
# a time namespace in which the machine runs for a month longer than for the daemon.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/clock.XXXXXX)
pages=/src/docs/guides
. /src/scripts/debian/typed.sh

say "A clock that the gate does not believe: it jumped by a month against the time since boot"
login agent 0 "gated status --json"
before=$(field gate)
told root 1 "$(block clock.md 'The clock' 1)"
printed 'NOT believed'
# The command asks on a terminal, as the guide says.
terminal root root
block clock.md 'When the clock is right and the gate does not believe it' 1 >/dev/null
follow root
tmux kill-server
login agent 0 "gated status"
printed 'clock .*ok '
login agent 0 "gated status --json"
[ "$(field gate)" != "$before" ] || fail "the time was not accepted: the gate has the old id"
note "the gate has a new id"

say "What cron did meanwhile, as root"
for _ in $(seq 2600); do
	[ -z "$(find /var/backups -name 'gated-20*.db')" ] || break
	sleep 0.05
done
made=$(find /var/backups -name 'gated-20*.db')
[ -n "$made" ] || { journalctl -u cron --no-pager >&2; fail "cron made no backup"; }
told root 0 "gated backup verify $made"
