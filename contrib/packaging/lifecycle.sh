#!/usr/bin/env bash
# What dpkg does to a gate with the packages, in a Debian 12 of its own without a running
# systemd: contrib/packaging/lifecycle.sh [DIRECTORY OF A DEBIAN]
#
# It takes root, or sudo without a password, and mmdebstrap with a Debian mirror. Each line it
# prints was checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$(id -u)" -ne 0 ]; then
	exec sudo -n "$0" "$@"
fi
export LC_ALL=C TZ=UTC DEBIAN_FRONTEND=noninteractive
umask 022
if [ -z "${IN_NAMESPACE-}" ]; then
	# Mounts and processes end with this one.
	exec unshare --mount --pid --fork --kill-child env IN_NAMESPACE=yes "$0" "$@"
fi

deb=$(find "$PWD/dist/packages" -name "gated_*_$(dpkg --print-architecture).deb")
tmp=$(mktemp -d)
# shellcheck disable=SC2064 # the directory is known now
trap "umount -l '$tmp/debian/proc' '$tmp/debian/dev' 2>/dev/null || true; rm -rf --one-file-system '$tmp'" EXIT
root=$tmp/debian
if [ -n "${1-}" ]; then
	cp -a "$1" "$root"
else
	mmdebstrap --quiet --variant=apt --include=systemd-standalone-sysusers,systemd-standalone-tmpfiles,bash-completion,zsh,fish,man-db \
		bookworm "$root" 2>"$tmp/log" ||
		{ cat "$tmp/log" >&2; echo "packages: there is no Debian to try them in" >&2; exit 1; }
fi
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
cp "$(command -v ssh-keygen)" "$tmp/" && ssh-keygen -q -t ed25519 -N '' -C alice -f "$tmp/key" && cp "$tmp/key.pub" "$root/root/"

in_it() { chroot "$root" "$@"; }
fail() {
	echo "packages: $*" >&2
	[ ! -e "$tmp/said" ] || cat "$tmp/said" >&2
	exit 1
}
checked() { echo "  $*"; }
# said TEXT: the last dpkg said so.
said() { grep -qF -- "$1" "$tmp/said" || fail "dpkg did not say: $1"; }
installs() { in_it dpkg -i "/root/$1.deb" >"$tmp/said" 2>&1 || fail "installing $1 failed"; }
refuses() { ! in_it dpkg -i "/root/$1.deb" >"$tmp/said" 2>&1 || fail "installing $1 did not fail"; }
# shellcheck disable=SC2016 # dpkg-query's own
installed() { in_it dpkg-query -W -f '${db:Status-Abbrev}${Version}' gated; }
is() { [ "$(installed)" = "ii $1" ] || fail "the state of the package is $(installed), not that of $1"; }
backups() { find "$root/var/lib/gated-backups" -name '*.db' | wc -l; }
as_gated() { in_it setpriv --reuid=gated --regid=gated --clear-groups "$@"; }

# version NAME NUMBER [SED SCRIPT...]: the package as another version, with changed scripts.
version() {
	local name=$1 number=$2 was
	shift 2
	rm -rf "$tmp/deb"
	dpkg-deb -R "$deb" "$tmp/deb"
	was=$(sed -n 's/^Version: //p' "$tmp/deb/DEBIAN/control")
	sed -i "s/^Version: .*/Version: $number/" "$tmp/deb/DEBIAN/control"
	for script in preinst postinst prerm postrm; do
		sed -i "s/$was/$number/g" "$tmp/deb/DEBIAN/$script"
	done
	while [ $# -gt 0 ]; do
		sed -i "$2" "$tmp/deb/DEBIAN/$1"
		shift 2
	done
	dpkg-deb -Zgzip -z1 -b "$tmp/deb" "$root/root/$name.deb" >/dev/null
}
version old 0.1.0~rc.1
version new 0.1.0
version newest 0.2.0
# dpkg dies, as with the power, before the unpacking and before the configuration.
# shellcheck disable=SC2016 # the parent of the script
version dies-before 0.2.0 preinst '$a kill -9 $PPID'
# shellcheck disable=SC2016
version dies-after 0.2.0 postinst '2a kill -9 $PPID'
# shellcheck disable=SC2016
version not-configured 0.2.0 postinst '2a [ "$1" != configure ] || exit 1'

state=$root/var/lib/gated
installs old
is 0.1.0~rc.1
said "next, as root: gated setup"
in_it gated --version >/dev/null
in_it opsign --version >/dev/null
[ "$(in_it stat -c '%U %G %a' /var/lib/gated)" = "gated gated 700" ] || fail "the state directory is not gated's alone"
installs old
said "no backup was made, because there is no gate in /var/lib/gated"
checked "install: the programs run, user and directory are there"

as_gated /usr/bin/gated init --state /var/lib/gated --host test --operator /dev/stdin <"$tmp/key.pub" >"$tmp/said" 2>&1 || fail "gated init failed"
install -d -m 0700 "$state/guests" "$state/guests/db" "$state/guests/db/data"
echo "cannot be made again" >"$state/guests/db/data/notes"
chown -R --reference="$state" "$state/guests"

# The three shells read the completions. bash and fish complete a command, and the operations of submit.
for program in gated opsign; do
	in_it zsh -n "/usr/share/zsh/vendor-completions/_$program" || fail "zsh cannot read the completion of $program"
done
for line in "gated notif=notify" "gated submit guest.destr=guest.destroy" "opsign appr=approve"; do
	words=${line%=*} want=${line#*=}
	# shellcheck disable=SC2016 # the inner shell's
	in_it bash -c '. /usr/share/bash-completion/bash_completion; . "/usr/share/bash-completion/completions/${1%% *}"
		COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		"__start_${1%% *}"; echo "${COMPREPLY[@]}"' bash "$words" >"$tmp/said" 2>&1
	said "$want"
	in_it fish -c "complete -C '$words'" >"$tmp/said" 2>&1
	said "$want"
done
for page in gated gated-submit opsign opsign-approve; do
	in_it man "$page" >"$tmp/said" 2>&1 || fail "there is no manual page $page"
	said "${page/-/ }"
done
checked "completions: bash and fish complete, zsh reads them; manual pages"

# The daemon runs during the first upgrade. Here no systemd starts it again.
mkdir -p "$root/run/gated"
chown --reference="$state" "$root/run/gated"
: >"$tmp/daemon"
chroot "$root" setpriv --reuid=gated --regid=gated --clear-groups \
	gated serve --state /var/lib/gated --socket /run/gated/gated.sock >"$tmp/daemon" 2>&1 &
daemon=$!
until grep -q msg=serving "$tmp/daemon"; do
	kill -0 "$daemon" 2>/dev/null || { cat "$tmp/daemon" >&2; fail "the daemon does not start"; }
done
installs new
kill "$daemon"
wait "$daemon" || fail "the daemon did not end well"
is 0.1.0
said "a verified backup of 0.1.0~rc.1: /var/lib/gated-backups/gated-0.1.0~rc.1-before-0.1.0-"
[ "$(in_it stat -c '%U %a' /var/lib/gated-backups)" = "gated 700" ] || fail "the backups are not gated's alone"
[ "$(in_it sh -c 'stat -c "%U %a" /var/lib/gated-backups/*')" = "gated 600" ] || fail "the backup is not gated's alone"
as_gated sh -c 'gated backup verify /var/lib/gated-backups/*' >/dev/null || fail "the backup does not verify"
[ -z "$(find "$root/var/lib" -name '.gated-upgrade.*')" ] || fail "the upgrade left a directory"
checked "upgrade: a verified backup by the old program first"

cp -p "$state/gated.db" "$tmp/whole"
printf 'broken' | dd of="$state/gated.db" conv=notrunc status=none
refuses newest
said "the upgrade stops and has changed nothing, because 0.1.0 could make no verified backup"
is 0.1.0
[ "$(backups)" = 1 ] || fail "a backup that was not verified got a name"
cat "$tmp/whole" >"$state/gated.db"
mv "$root/usr/bin/gated" "$tmp/gated"
refuses newest
said "the upgrade stops and has changed nothing, because /usr/bin/gated of 0.1.0, which makes the backup, is not there"
is 0.1.0
for content in "" hello; do # a program that is none
	printf %s "$content" >"$root/usr/bin/gated"
	chmod 0755 "$root/usr/bin/gated"
	refuses newest
	said "/usr/bin/gated of 0.1.0, which makes the backup, is not there or does not run"
	installs new
	said "no backup was made, because /usr/bin/gated does not run; 0.1.0 is installed again"
	in_it gated --version >/dev/null || fail "a reinstallation did not mend the program"
done
[ "$(backups)" = 1 ] || fail "a program that does not run made a backup"
mv "$tmp/gated" "$root/usr/bin/gated"
checked "upgrade of a gate that cannot be backed up: it stops, and nothing changed"

installs newest
is 0.2.0
refuses new
said "0.1.0 is older than 0.2.0, whose database it may not open; nothing was changed."
said "section Downgrade of /usr/share/doc/gated/docs/guides/runbook.md"
is 0.2.0
mkdir -p "$root/etc/gated"
echo 0.1.0~rc.1 >"$root/etc/gated/allow-downgrade"
refuses new
is 0.2.0
echo 0.1.0 >"$root/etc/gated/allow-downgrade"
installs new
is 0.1.0
[ ! -e "$root/etc/gated/allow-downgrade" ] || fail "the file allows more than one downgrade"
grep -q '^## Downgrade$' "$root/usr/share/doc/gated/docs/guides/runbook.md" || fail "the runbook has no section Downgrade"
checked "downgrade: refused, and allowed once by a file that names the version"

for killed in dies-before dies-after; do
	refuses $killed
	[ "$(installed)" != "ii 0.2.0" ] || fail "$killed did not die"
	rm -f "$root/var/lib/dpkg/lock" # it is free, because its process is dead
	installs newest
	is 0.2.0
	as_gated gated fsck --state /var/lib/gated >/dev/null || fail "the gate is not sound after $killed"
	echo 0.1.0 >"$root/etc/gated/allow-downgrade"
	installs new
done
# dpkg takes a version whose configuration failed for installed when an upgrade from it stops.
refuses not-configured
in_it userdel gated-notify
refuses new
said "no unit of 0.2.0 was started or restarted"
is 0.2.0
in_it getent passwd gated-notify >/dev/null || fail "a version that was never configured counts as installed"
# On a broken disk an upgrade stops, and going back to the installed version then fails at nothing more.
mkdir "$root/root/broken"
printf '#!/bin/sh\nexit 1\n' >"$root/root/broken/systemd-tmpfiles"
chmod +x "$root/root/broken/systemd-tmpfiles"
for call in "abort-upgrade 0.3.0" "abort-deconfigure in-favour other 1"; do
	# shellcheck disable=SC2086 # words
	in_it env PATH="/root/broken:$PATH" /var/lib/dpkg/info/gated.postinst $call >"$tmp/said" 2>&1 || fail "$call failed"
	said "this failed: systemd-tmpfiles"
done
echo 0.1.0 >"$root/etc/gated/allow-downgrade"
installs new
in_it dpkg --unpack /root/newest.deb >"$tmp/said" 2>&1 || fail "unpacking failed"
installs newest
is 0.2.0
checked "an upgrade that was cut off: dpkg completes it at the next try"

in_it dpkg -r gated >"$tmp/said" 2>&1 || fail "removing failed"
for file in gate.key gated.db gated.yaml; do
	[ -f "$state/$file" ] || fail "remove took $file"
done
refuses new
said "0.1.0 is older than 0.2.0"
checked "remove: the gate stays, and an older version is refused there too"

installs newest
mkdir -p "$root/usr/local/bin" "$root/etc/systemd/system"
cp "$root/usr/bin/gated" "$root/usr/local/bin/gated"
echo "[Service]" >"$root/etc/systemd/system/gated.service"
installs newest
said "/usr/local/bin/gated is found before /usr/bin/gated"
said "units in /etc/systemd/system are in force"
in_it dpkg -r gated >"$tmp/said" 2>&1 || fail "removing failed"
in_it dpkg -P gated >"$tmp/said" 2>&1 || fail "purging failed"
said "a gate with units of your own uses /var/lib/gated: nothing of it was removed"
for file in "$state/gate.key" "$root/etc/systemd/system/gated.service" "$root/usr/local/bin/gated"; do
	[ -e "$file" ] || fail "$file of a hand-made gate is gone"
done
rm "$root/etc/systemd/system/gated.service" "$root/usr/local/bin/gated"
checked "beside a hand-made gate: it says what shadows the package, and changes nothing there"

installs newest
exec 9>>"$state/lock"
flock 9
! in_it dpkg -P gated >"$tmp/said" 2>&1 || fail "purge took the state of a process"
said "a process uses /var/lib/gated, so nothing of it was removed"
[ -f "$state/gate.key" ] || fail "purge took a part of the gate"
exec 9>&-
# As if an earlier purge had been killed after its first file.
mkdir -m 0700 "$root/var/lib/gated-purged.unfinished"
mv "$state/allowed_signers" "$root/var/lib/gated-purged.unfinished/"
in_it dpkg -P gated >"$tmp/said" 2>&1 || fail "purging failed"
kept=$(find "$root/var/lib" -maxdepth 1 -name 'gated-purged*')
said "kept in ${kept#"$root"}"
[ "$(stat -c '%u %a' "$kept")" = "0 700" ] || fail "$kept is not root's alone"
for file in gated.db allowed_signers gated.yaml; do
	[ "$(stat -c '%u %a' "$kept/$file")" = "0 600" ] || fail "$file was not kept, root's alone"
done
for file in gate.key gated.db lock reserve; do
	[ ! -e "$state/$file" ] || fail "$file is still there"
done
[ "$(cat "$state/guests/db/data/notes")" = "cannot be made again" ] || fail "a guest lost its data"
said "guests' data and what else stood in /var/lib/gated are kept there"
said "backups are kept in /var/lib/gated-backups"
installs newest
in_it gated backup verify "${kept#"$root"}/gated.db" >/dev/null || fail "the log that was kept cannot be read"
checked "purge: the log, the settings, the guests and the backups are kept, and it says where"
