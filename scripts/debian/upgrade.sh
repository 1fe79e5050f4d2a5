#!/usr/bin/env bash
# The gate of package.sh is upgraded, not downgraded, restored, removed and purged.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/upgrade.XXXXXX)
pages=/usr/share/doc/gated
. /src/scripts/debian/typed.sh
. /src/scripts/debian/hosts.sh
old=$(dpkg-deb -f /tmp/old/gated.deb Version)
new=$(dpkg-deb -f /tmp/new/gated.deb Version)
installed() { dpkg-query -W -f '${Status} ${Version}\n' gated; }
is() { [ "$(installed)" = "install ok installed $1" ] || fail "gated is '$(installed)', not installed in version $1"; }
gate() { login agent 0 'gated status --json'; field gate; }

say "An upgrade stops if it can make no verified backup"
was=$(gate)
systemctl stop gated.service gated.socket
cp -a /var/lib/gated/gated.db "$dir/gated.db"
dd if=/dev/zero of=/var/lib/gated/gated.db bs=4096 seek=9 count=3 conv=notrunc status=none
told root 1 'dpkg -i /tmp/new/gated.deb'
printed 'the upgrade stops and has changed nothing'
is "$old"
for unit in gated.service gated.socket; do
	[ "$(systemctl is-active "$unit")" = inactive ] || fail "the upgrade that stopped has started $unit"
done
cp -a "$dir/gated.db" /var/lib/gated/gated.db
[ ! -s /var/lib/gated/gated.db-wal ] || fail "the upgrade that stopped has written to the database"
systemctl start gated.socket
[ "$(gate)" = "$was" ] || fail "the gate is another one"

say "An upgrade that is killed, in two places, and the upgrade after it"
killed 'a verified backup of' dpkg -i /tmp/new/gated.deb
[ "$(gate)" = "$was" ] || fail "the gate is another one"
killed '^Setting up gated' dpkg -i /tmp/new/gated.deb
login root 0 'dpkg --configure -a'
told root 0 'cd /tmp/new && apt install --reinstall ./gated.deb'
is "$new"
healthy
[ "$(gate)" = "$was" ] || fail "the gate is another one"
login agent 0 'gated jobs --json'
printed pending
backup=$(find /var/lib/gated-backups -name '*.db' | sort | tail -n 1)
told root 0 "gated backup verify $backup"

say "A downgrade is refused"
told root 100 'cd /tmp/old && apt install --yes --allow-downgrades ./gated.deb'
printed 'section Downgrade of'
is "$new"
login agent 0 'gated status'

say "A downgrade that the runbook allows: the database is one that the older version opens"
told root 0 "echo '$old' >/etc/gated/allow-downgrade && cd /tmp/old && apt install --yes --allow-downgrades ./gated.deb"
is "$old"
[ "$(gate)" = "$was" ] || fail "the gate is another one"
[ ! -e /etc/gated/allow-downgrade ] || fail "it allows another downgrade"

say "Restored as the runbook says, from a backup that cron would make"
settings=$(block docs/guides/runbook.md Runbook 1)
login root 0 "$settings
install -d -m 0700 \"\$BACKUPS\"
$(script docs/guides/runbook.md before-upgrade.sh)"
for part in before-restore restore; do
	told root 0 "$settings
$(script docs/guides/runbook.md $part.sh)"
done
[ "$(gate)" != "$was" ] || fail "the restored gate has the old id"
healthy

say "A removal that fails starts what it stopped"
running() { systemctl is-active gated.socket gated.service gated-notify.service gated-console.service gated-metrics.timer || true; }
before=$(running)
[ "$(grep -cx active <<<"$before")" = 5 ] || fail "not all units run before the removal: $before"
broken=/run/systemd/system/gated-console.service.d
mkdir -p "$broken"
printf '[Service]\nExecStartPre=/bin/false\n' >"$broken/broken.conf"
systemctl daemon-reload
cp -p /var/lib/dpkg/info/gated.prerm "$dir/prerm"
echo 'exit 1' >>/var/lib/dpkg/info/gated.prerm
told root 1 'dpkg --remove gated'
printed "gated-console.service did not start"
printed "the package stays, and its units that are enabled were started"
rm -r "$broken"
systemctl daemon-reload
systemctl reset-failed gated-console.service
systemctl start gated-console.service
cp -p "$dir/prerm" /var/lib/dpkg/info/gated.prerm
[ "$(installed)" = "deinstall ok installed $old" ] || fail "gated is '$(installed)'"
[ "$(running)" = "$before" ] || fail "units were stopped: $(running)"
healthy

say "Removed, the gate stays; purged, its log stays"
was=$(gate)
told root 0 'apt remove --yes gated'
[ ! -e /usr/bin/gated ] && [ ! -S /run/gated/gated.sock ] || fail "something of the package is left"
[ -f /var/lib/gated/gated.db ] || fail "the state is gone"
told root 0 'cd /tmp/new && apt install ./gated.deb'
[ "$(gate)" = "$was" ] || fail "the gate is another one"
told root 0 'apt purge --yes gated'
kept=$(find /var/lib -maxdepth 1 -name 'gated-purged-*')
[ -f "$kept/gated.db" ] || fail "the log is not kept"
printed "$kept"
[ ! -e /var/lib/gated/gate.key ] || fail "the purge left the gate's key"
told root 0 "/src/bin/gated backup verify $kept/gated.db"
told root 0 'ls /var/lib/gated-backups'
healthy
