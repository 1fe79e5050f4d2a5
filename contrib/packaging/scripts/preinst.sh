# Before the files of this version are unpacked: no downgrade by mistake, and a verified backup
# by the program that is installed.

was=
case ${1-} in
install | upgrade) was=${2-} ;;                         # dpkg
2) was=$(rpm -q --qf '%{VERSION}\n' gated | tail -n 1) ;; # rpm, an upgrade
*) exit 0 ;;
esac

# older THAN: this package is of an older version.
older() {
	case $1 in
	install | upgrade) dpkg --compare-versions "$version" lt "$2" ;;
	*) [ "$(rpm --eval "%{lua:print(rpm.vercmp('$version','$2'))}")" = -1 ] ;;
	esac
}

if [ -n "$was" ] && older "$1" "$was"; then
	if [ "$(cat /etc/gated/allow-downgrade 2>/dev/null)" != "$version" ]; then
		say "$version is older than $was, whose database it may not open; nothing was changed."
		say "Follow section Downgrade of $runbook; it says when to write $version into /etc/gated/allow-downgrade."
		exit 1
	fi
	say "downgrade from $was to $version, as /etc/gated/allow-downgrade said"
fi

# The file allows one downgrade, and that one goes on from here.
allowed_once() { rm -f /etc/gated/allow-downgrade; }

stops() {
	say "the upgrade stops and has changed nothing, because $1"
	exit 1
}

# After a removal no program is left that could make a backup. So a gate of which none can be made gets a new version.
if [ -z "$was" ] || [ "$1" = install ]; then
	allowed_once
	exit 0
fi
if [ ! -f "$state/gated.db" ]; then
	say "no backup was made, because there is no gate in $state; back up one that is elsewhere before it serves again"
	allowed_once
	exit 0
fi
# An empty file would end well, so that what it prints counts. A reinstallation mends the program, and migrates nothing.
case $(as_daemon /usr/bin/gated --version) in
"gated version "*) ;;
*)
	if [ "$was" != "$version" ]; then
		stops "/usr/bin/gated of $was, which makes the backup, is not there or does not run: remove the package, which keeps $state, and install this one"
	fi
	say "no backup was made, because /usr/bin/gated does not run; $version is installed again"
	allowed_once
	exit 0
	;;
esac

# The copy is made in a directory of the daemon's user inside one of root's, so that neither can
# be made to write to another place.
rm -rf /var/lib/.gated-upgrade.*
work=$(mktemp -d /var/lib/.gated-upgrade.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 0711 "$work"
mkdir -m 0700 "$work/copy"
chown "$(stat -c %u:%g "$state")" "$work/copy"
copy=$work/copy/backup.db
if ! as_daemon env TMPDIR="$work/copy" /usr/bin/gated backup --state "$state" "$copy" >/dev/null ||
	! as_daemon env TMPDIR="$work/copy" /usr/bin/gated backup verify "$copy" >/dev/null; then
	stops "$was could make no verified backup of $state: mend what it says above (section Upgrade of $runbook), then upgrade again"
fi
if [ ! -d "$backups" ]; then
	mkdir -m 0700 "$backups"
	chown "$(stat -c %u:%g "$state")" "$backups"
fi
backup=$backups/gated-$was-before-$version-$(date -u +%Y%m%dT%H%M%SZ)
while [ -e "$backup.db" ]; do # an upgrade that was cut off in this second
	backup=$backup-again
done
backup=$backup.db
mv -n -T "$copy" "$backup"
if [ -e "$copy" ]; then
	stops "the backup could not be moved to $backup: upgrade again"
fi
sync "$backups"
say "a verified backup of $was: $backup"
allowed_once
