#!/bin/sh
# The beginning of each maintainer script. dpkg calls them with words, rpm with the number of
# versions that are left: both are understood.
set -e

# shellcheck disable=SC2034 # each script uses some of these
{
	version='@VERSION@'       # of this package
	units='@ENABLE@'          # what an installation enables and starts
	services='@SERVICES@'     # what an upgrade restarts, and a removal stops
	users='@SYSUSERS@'        # files below /usr/lib/sysusers.d
	directories='@TMPFILES@'  # files below /usr/lib/tmpfiles.d
	state=/var/lib/gated
	backups=/var/lib/gated-backups
	runbook=/usr/share/doc/gated/docs/guides/runbook.md
}

say() { printf 'gated: %s\n' "$*" >&2; }

# handmade: a unit of the operator's own is in force. Then the gate is theirs, and nothing of
# it is started, stopped or removed here.
handmade() {
	for unit in $units $services; do
		real=$(readlink -f "/etc/systemd/system/$unit")
		case $real in
		/usr/lib/systemd/system/* | /lib/systemd/system/*) ;; # an alias of the package's
		*) if [ -f "$real" ]; then return 0; fi ;;            # not /dev/null, which masks a unit
		esac
	done
	return 1
}

# as_daemon COMMAND...: runs it as the owner of the state directory.
as_daemon() {
	setpriv --reuid="$(stat -c %u "$state")" --regid="$(stat -c %g "$state")" --clear-groups -- "$@"
}

# by_dpkg: dpkg runs this script, and not rpm on the same system.
by_dpkg() { [ -n "${DPKG_MAINTSCRIPT_NAME-}" ] && command -v deb-systemd-helper >/dev/null; }

systemd_runs() { [ -d /run/systemd/system ]; }

# invoke VERB UNIT...: asks the running systemd. On Debian, the administrator's policy-rc.d has a say.
invoke() {
	systemd_runs || return 0
	if by_dpkg; then
		deb-systemd-invoke "$@" >/dev/null
	else
		systemctl "$@" >/dev/null
	fi
}

reload() { if systemd_runs; then systemctl --system daemon-reload; fi; }
