#!/usr/bin/env bash
# gated as contrib/systemd/README.md installs it, and the blocks of the runbook and of the guide to backups
# as the users that they name: root in a login, and the gate's user by runuser.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/hand.XXXXXX)
pages=/src
. /src/scripts/debian/typed.sh
. /src/scripts/debian/hosts.sh

say "Installed by hand, as contrib/systemd says"
install -m 0755 /src/bin/gated /src/bin/opsign /usr/local/bin/
people
install -m 0644 ~alice/.ssh/id_ed25519.pub /etc/ssh/alice.pub
told root 0 "cd /src
$(block contrib/systemd/README.md Install 1)"
# It asks on a terminal.
terminal root root
block contrib/systemd/README.md Install 2 >/dev/null
follow root
tmux kill-server
mapfile -t units < <(find /etc/systemd/system -maxdepth 1 -name 'gated*' -type f)
[ "${#units[@]}" -gt 0 ] || fail "no unit was installed"
verified "${units[@]}"
usermod --append --groups gated agent

say "An agent in a bare login asks, and alice approves"
told agent 0 "gated submit guest.create web --wait"
login agent 3 "gated submit guest.destroy web --reason 'the project is over'"
printed 'waits for a signature'
told alice 0 "opsign show j2.1 | head -n 1"
told alice 0 "opsign approve j2.1 --key .ssh/id_ed25519 --yes | tail -n 1"
printed 'destroyed guest/web'

say "The runbook: upgrade and restore, as root"
pages=/src/docs/guides
settings=$(block runbook.md Runbook 1)
install_programs='install_programs() { install -m 0755 /src/bin/gated /src/bin/opsign /usr/local/bin; }'
login root 0 'gated status --json'
before=$(field gate)
for part in before-upgrade upgrade before-restore restore; do
	note "$part"
	login root 0 "$settings
$install_programs
$(script runbook.md $part.sh)"
done
login root 0 'gated status --json'
[ "$(field gate)" != "$before" ] || fail "the restored gate has the old id"
silent 0 stat -c %U /var/lib/gated/gated.db /var/lib/gated/allowed_signers
[ "$(sort -u "$dir/out")" = gated ] || fail "root made files of the gate's state"
note "the gate has a new id, and its state is still the user gated's"
told agent 0 "gated submit guest.create db --wait"

say "The guides to backup and to restore, as root"
login root 0 "$(block backup-and-restore.md 'Take a backup' 1)
$(block backup-and-restore.md 'Take a backup' 2)"
made=$(ls /var/backups/gated-20*.db)
for words in 'Take a backup:3' 'Restore one:1'; do
	told root 0 "$(block backup-and-restore.md "${words%:*}" "${words#*:}" | sed "s|/var/backups/gated-2026-03-01.db|$made|")"
done
login agent 0 "gated status"

# Cron starts what the runbook says each minute instead of each night, beside what follows; clock.sh looks at what it did.
rm "$made"
block runbook.md 'In cron' 1 | sed 's/^[0-9]\+ [0-9]\+ \* \* [*0-9]/* * * * */' >/etc/cron.d/gated
