# After the files went. A removal keeps the state. A purge removes it and keeps what cannot be made
# again: the log with the database that has it, and the guests.

case ${1-} in
remove | 0)
	if by_dpkg; then
		for unit in $units; do
			deb-systemd-helper mask "$unit" >/dev/null
		done
	fi
	reload
	exit 0
	;;
purge) ;;
*) exit 0 ;;
esac

if by_dpkg; then
	for unit in $units; do
		deb-systemd-helper purge "$unit" >/dev/null
		deb-systemd-helper unmask "$unit" >/dev/null
	done
fi
rm -f /etc/gated/allow-downgrade
if [ -d /etc/gated ]; then
	rmdir --ignore-fail-on-non-empty /etc/gated
fi

if [ ! -d "$state" ] || [ -L "$state" ]; then
	exit 0
fi
if handmade; then
	say "a gate with units of your own uses $state: nothing of it was removed"
	exit 0
fi
if [ -f "$state/lock" ] && ! flock -n "$state/lock" true; then
	say "a process uses $state, so nothing of it was removed: end it, and purge again"
	exit 1
fi

# The database has the log, its last signed head and the public half of gate.key.
# Under one name until all is in it, so that a purge that was killed goes on where it was and a
# database is not parted from its write-ahead log.
unfinished=/var/lib/gated-purged.unfinished
mkdir -p "$unfinished"
chmod 0700 "$unfinished"
for file in "$state"/gated.db* "$state/gated.yaml" "$state"/allowed_signers* "$state/revoked"; do
	if [ -f "$file" ] && [ ! -L "$file" ]; then
		mv -f -T "$file" "$unfinished/${file##*/}"
	fi
done
for file in "$unfinished"/*; do
	# A link was made by another hand: its file keeps owner and mode.
	if [ -f "$file" ] && [ ! -L "$file" ] && [ "$(stat -c %h "$file")" = 1 ]; then
		chown root:root "$file"
		chmod 0600 "$file"
	fi
done
rm -f "$state/gate.key" "$state/reserve" "$state/lock" "$state/revoked.lock"
rm -rf "$state"/.backup-*
if rmdir "$unfinished" 2>/dev/null; then
	kept=
else
	kept=/var/lib/gated-purged-$(date -u +%Y%m%dT%H%M%SZ)
	mv -n -T "$unfinished" "$kept"
	if [ -e "$unfinished" ]; then # a purge in the same second has the name
		kept=$unfinished
	fi
	say "the audit log, its database and its settings are kept in $kept"
fi
if [ -d "$state/guests" ] && rmdir "$state/guests" 2>/dev/null; then :; fi
if ! rmdir "$state" 2>/dev/null; then
	say "guests' data and what else stood in $state are kept there"
fi
if [ -d "$backups" ]; then
	say "backups are kept in $backups"
fi
