# After the files are there: users, directories, units.

case ${1-} in
configure) was=${2-} ;;                                 # dpkg
1) was= ;;                                              # rpm, a first installation
2) was=some ;;                                          # rpm, an upgrade
abort-upgrade | abort-remove | abort-deconfigure) was=some ;; # dpkg: the installed version stays
*) exit 0 ;;
esac

for file in $users; do
	systemd-sysusers "/usr/lib/sysusers.d/$file"
done
for file in $directories; do
	systemd-tmpfiles --create "/usr/lib/tmpfiles.d/$file"
done

for file in /usr/local/bin/gated /usr/local/bin/opsign; do
	if [ -e "$file" ]; then
		say "$file is found before /usr/bin/${file##*/}: it stays what a shell runs until you remove it"
	fi
done
if handmade; then
	say "units in /etc/systemd/system are in force, so the package's are not enabled and nothing was restarted."
	say "To move to the package: systemctl stop gated, remove gated.service and gated.socket from /etc/systemd/system" \
		"(keep gated.service.d), then dpkg-reconfigure gated or install again"
	exit 0
fi

enabled() {
	if by_dpkg; then
		deb-systemd-helper unmask "$1" >/dev/null
		# What the administrator disabled stays disabled.
		if deb-systemd-helper --quiet was-enabled "$1"; then
			deb-systemd-helper enable "$1" >/dev/null
		else
			deb-systemd-helper update-state "$1" >/dev/null
		fi
	elif [ -z "$was" ] && command -v systemctl >/dev/null; then
		systemctl enable "$1" >/dev/null
	fi
}

for unit in $units; do
	enabled "$unit"
done
reload
for unit in $units; do
	case $unit in
	*.socket) invoke start "$unit" ;;
	# A gate without a state does not start.
	*) if [ -f "$state/gated.db" ]; then invoke start "$unit"; fi ;;
	esac
done
if [ -n "$was" ]; then
	# shellcheck disable=SC2086 # a list of units
	invoke try-restart $services
fi
if [ ! -f "$state/gated.db" ]; then
	say "installed; next, as root: gated setup"
fi
