#!/usr/bin/env bash
# gated on a Debian 12 that boots for this: with systemd as process 1, from Debian's packages, with no network but
# loopback. Every step checks that what it says is so; the first one that is not ends the demo with exit code 1. It
# leaves the tree of Debian in the user's cache, and nothing else. Run it with: sudo make demo-debian;
# scripts/demo-debian.sh tour runs one part.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" = 0 ] || { echo "demo-debian: not run: to boot a Debian takes root: sudo make demo-debian" >&2; exit 1; }
for program in systemd-nspawn nsenter unshare pgrep; do
	command -v "$program" >/dev/null || {
		echo "demo-debian: not run: $program is needed (Debian: apt-get install systemd-container mmdebstrap procps)" >&2
		exit 1
	}
done
# What is mounted here is mounted for this script alone, and goes with it.
[ -n "${GATED_DEMO_MOUNTS-}" ] || GATED_DEMO_MOUNTS=own exec unshare --mount --propagation private -- "$0" "$@"

name=demo-debian
began=$SECONDS
dir=
. "$root/scripts/tell.sh"
. "$root/scripts/debian.sh"
packages= # where two versions of the package are, if they were built here
cleanup() {
	halted
	[ -z "$packages" ] || rm -rf "$packages"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

tree=$("$root/scripts/debian-tree.sh")

# fresh boots a Debian that was never booted before; chapter runs a script in it.
fresh() {
	halted
	dir=$(mktemp -d /var/tmp/gated-demo-debian.XXXXXX)
	boot "$tree" --bind-ro="$root:/src" "$@"
}

chapter() {
	local from=$SECONDS
	inside /bin/bash "/src/scripts/debian/$1" || fail "$1 ended at the step above"
	note "($1: $((SECONDS - from)) s)"
}

tour() {
	fresh
	chapter tour.sh
	chapter guides.sh
}

by_hand() {
	versions
	fresh --bind-ro="$debs:/packages"
	chapter by-hand.sh
	# Only a process with the machine's own rights may make such a time, so this is no unit of the container.
	enter unshare --time --fork --boottime 2592000 /bin/bash /src/scripts/debian/clock.sh || fail "clock.sh ended at the step above"
	chapter over.sh
}

# versions makes two versions of the package that differ in their number alone, the commit's and one of a day later, and
# keeps where they are. GATED_PACKAGES may name a directory that has them, for one who tries a change of the story.
versions() {
	local commit at
	[ -z "${GATED_PACKAGES-}" ] || { debs=$GATED_PACKAGES; return; }
	[ -z "$packages" ] || return 0
	packages=$(mktemp -d /var/tmp/gated-demo-packages.XXXXXX)
	commit=$(git -C "$root" log -1 --format=%ct)
	for at in "$commit" "$((commit + 86400))"; do
		SOURCE_DATE_EPOCH=$at "$root/contrib/packaging/build.sh" -formats deb -archs "$(dpkg --print-architecture)" \
			>"$packages/log" 2>&1 || { tail -n 20 "$packages/log" >&2; fail "a package was not built"; }
		mv "$root"/dist/packages/*.deb "$packages/"
	done
	debs=$packages
}

package() {
	versions
	fresh --bind-ro="$debs:/packages"
	chapter package.sh
	chapter nostart.sh
	chapter upgrade.sh
}

[ $# -gt 0 ] || set -- tour by_hand package
for part in "$@"; do
	$part
done
say "Done in $((SECONDS - began)) s: nothing of it runs any more."
