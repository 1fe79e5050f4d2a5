#!/usr/bin/env bash
# The guide to the clock as root follows it, on the gate of by-hand.sh; and what cron did meanwhile. All logins of this script are in
# a time namespace in which the machine runs for a month longer than for the daemon.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/clock.XXXXXX)
pages=/src
. /src/scripts/debian/typed.sh
who=$(block contrib/systemd/README.md 'gated under systemd' 4)
pages=/src/docs/guides

say "A clock that the gate does not believe: it jumped by a month against the time since boot"
told root 1 "$(block clock.md 'The clock' 1)"
printed 'NOT believed'
# The command asks on a terminal, as the guide says.
terminal root root
block clock.md 'When the clock is right and the gate does not believe it' 1 >/dev/null
follow root
told root 0 "$(block clock.md 'The clock' 1)"
login agent 0 "$who
gated status"
printed 'clock .*ok '
tmux kill-server

say "What cron did meanwhile, as root"
for _ in $(seq 1300); do
	[ -z "$(find /var/backups -name 'gated-20*.db' -newer /etc/cron.d/gated)" ] || break
	sleep 0.05
done
expect 0 find /var/backups -name 'gated-20*.db' -newer /etc/cron.d/gated
