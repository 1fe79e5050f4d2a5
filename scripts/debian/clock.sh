#!/usr/bin/env bash
# The guide to the clock as root follows it, on the gate of by-hand.sh after other-clock.sh; and what cron did meanwhile.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/clock.XXXXXX)
pages=/src
. /src/scripts/debian/typed.sh
who=$(block contrib/systemd/README.md 'gated under systemd' 4)
pages=/src/docs/guides
settings=$(block runbook.md Runbook 1)

told root 1 "$settings
$(block clock.md 'The clock' 1)"
login root 0 "$settings
gated status"
printed 'clock .*BAD'
# The command asks on a terminal, as the guide says.
terminal root root
block clock.md 'When the clock is right and the gate does not believe it' 1 >/dev/null
follow root
told root 0 "$settings
$(block clock.md 'The clock' 1)"
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
