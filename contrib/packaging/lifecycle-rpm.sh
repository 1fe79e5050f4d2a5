#!/usr/bin/env bash
# What rpm does to a gate with the packages: contrib/packaging/lifecycle-rpm.sh OLD.rpm NEW.rpm
#
# It is Debian's rpm, in a Debian 12 of its own without a running systemd: no distribution with rpm was tried. It takes
# root, or sudo without a password, and mmdebstrap with a Debian mirror. Each line it prints was checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$(id -u)" -ne 0 ]; then
	exec sudo -n "$0" "$@"
fi
export LC_ALL=C TZ=UTC DEBIAN_FRONTEND=noninteractive
umask 022
if [ -z "${IN_NAMESPACE-}" ]; then
	exec unshare --mount --pid --fork --kill-child env IN_NAMESPACE=yes "$0" "$@"
fi

tmp=$(mktemp -d)
# shellcheck disable=SC2064 # the directory is known now
trap "umount -l '$tmp/debian/proc' '$tmp/debian/dev' 2>/dev/null || true; rm -rf --one-file-system '$tmp'" EXIT
root=$tmp/debian
mmdebstrap --quiet --variant=apt --include=rpm,systemd-standalone-sysusers,systemd-standalone-tmpfiles bookworm "$root" 2>"$tmp/log" ||
	{ cat "$tmp/log" >&2; echo "packages: there is no Debian to try rpm in" >&2; exit 1; }
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp "$1" "$root/root/old.rpm"
cp "$2" "$root/root/new.rpm"
ssh-keygen -q -t ed25519 -N '' -C alice -f "$tmp/key" && cp "$tmp/key.pub" "$root/root/"

in_it() { chroot "$root" "$@"; }
fail() {
	echo "packages: $*" >&2
	[ ! -e "$tmp/said" ] || cat "$tmp/said" >&2
	exit 1
}
said() { grep -qF -- "$1" "$tmp/said" || fail "rpm did not say: $1"; }
# Debian's rpm knows no other package of this system, so there are no dependencies.
installs() { in_it rpm -U --nodeps --oldpackage "/root/$1.rpm" >"$tmp/said" 2>&1 || fail "installing $1 failed"; }
refuses() { ! in_it rpm -U --nodeps --oldpackage "/root/$1.rpm" >"$tmp/said" 2>&1 || fail "installing $1 did not fail"; }
version() { rpm -qp --nosignature --qf '%{VERSION}' "$root/root/$1.rpm"; }
is() { [ "$(in_it rpm -q --qf '%{VERSION}' gated)" = "$(version "$1")" ] || fail "it is not $1 that is installed"; }
state=$root/var/lib/gated
old=$(version old)

in_it rpm --initdb
installs old
said "next, as root: gated setup"
in_it gated setup --operator /root/key.pub --yes >"$tmp/said" 2>&1 || fail "gated setup failed"
[ "$(in_it stat -c '%U %a' /var/lib/gated/gated.db)" = "gated 600" ] || fail "the state is not gated's alone"
echo "  rpm, install: gated setup makes a gate"

cp -p "$state/gated.db" "$tmp/whole"
printf 'broken' | dd of="$state/gated.db" conv=notrunc status=none
refuses new
said "the upgrade stops and has changed nothing"
is old
cat "$tmp/whole" >"$state/gated.db"
installs new
said "a verified backup of $old: /var/lib/gated-backups/"
is new
in_it setpriv --reuid=gated --regid=gated --clear-groups sh -c 'gated backup verify /var/lib/gated-backups/*.db' >/dev/null ||
	fail "the backup does not verify"
echo "  rpm, upgrade: a verified backup first, else it stops"

refuses old
said "section Downgrade of /usr/share/doc/gated/docs/guides/runbook.md"
is new
echo "$old" >"$root/etc/gated/allow-downgrade"
installs old
is old
[ ! -e "$root/etc/gated/allow-downgrade" ] || fail "the file allows more than one downgrade"
echo "  rpm, downgrade: refused, and allowed once by a file that names the version"

in_it rpm -e gated >"$tmp/said" 2>&1 || fail "removing failed"
said "the gate stays in /var/lib/gated"
[ -f "$state/gated.db" ] || fail "remove took the gate"
[ ! -e "$root/usr/bin/gated" ] || fail "remove left the program"
installs new
in_it setpriv --reuid=gated --regid=gated --clear-groups gated fsck --state /var/lib/gated >/dev/null || fail "the gate is not sound"
echo "  rpm, remove: the gate stays"
