# After the files are there: users, directories, units.

call=${1-}
stay=
case $call in
configure) was=${2-} ;;                                 # dpkg
1) was= ;;                                              # rpm, a first installation
2) was=some ;;                                          # rpm, an upgrade
abort-remove) was= ;;                                   # dpkg: the installed version stays, and prerm stopped it
abort-upgrade | abort-deconfigure) was=some stay=yes ;; # the same, and prerm stopped nothing
*) exit 0 ;;
esac

# made COMMAND...: runs it. If an upgrade stops, for example because the disk is broken, a failure here does not add to it.
made() {
	if ! "$@"; then
		[ -n "$stay" ] || exit 1
		say "this failed: $*"
	fi
}

for file in $users; do
	made systemd-sysusers "/usr/lib/sysusers.d/$file"
done
for file in $directories; do
	made systemd-tmpfiles --create "/usr/lib/tmpfiles.d/$file"
done

for file in /usr/local/bin/gated /usr/local/bin/opsign; do
	if [ -e "$file" ]; then
		say "$file is found before /usr/bin/${file##*/}: it stays what a shell runs until you remove it"
	fi
done
if handmade; then
	say "units in /etc/systemd/system are in force, so the package's are not enabled and nothing was restarted."
	say "To move to the package, follow 'An older gate that was made by hand' in" \
		"/usr/share/doc/gated/contrib/systemd/README.md: the state stays."
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
# A gate that the operator stopped stays stopped, and a step that is under way is not cut off.
if [ -n "$stay" ]; then
	say "no unit of $version was started or restarted: systemctl restart gated.service does it"
	exit 0
fi
# What prerm stopped runs again, as after a boot: what is enabled starts, also if the operator had stopped it.
if [ "$call" = abort-remove ] && systemd_runs; then
	for unit in $services; do
		if [ "$(systemctl is-enabled "$unit" 2>/dev/null)" = enabled ]; then # and not static
			units="$units $unit"
		fi
	done
fi
# unstarted UNIT: one unit that does not start keeps no other one down, if all of them ran before.
unstarted() {
	[ "$call" = abort-remove ] || exit 1
	say "$1 did not start: systemctl status $1"
}
for unit in $units; do
	# A gate without a state does not start.
	if [ "$unit" != gated.service ] || [ -f "$state/gated.db" ]; then
		invoke start "$unit" || unstarted "$unit"
	fi
done
if [ -n "$was" ]; then
	# shellcheck disable=SC2086 # a list of units
	invoke try-restart $services
fi
if [ "$call" = abort-remove ]; then
	say "the package stays, and its units that are enabled were started"
elif [ ! -f "$state/gated.db" ]; then
	say "installed; next, as root: gated setup"
fi
