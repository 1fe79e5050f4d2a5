#!/usr/bin/env bash
# Prints the directory of a Debian 12 with systemd, for scripts/demo-debian.sh. The first run makes it with mmdebstrap
# from the mirrors that this machine's own apt uses, below the user's cache; later runs find it there. Nothing writes
# to the tree afterwards: a boot has a layer of its own above it.
set -euo pipefail

# What an operator's host has, and the servers that the story speaks to. No libpam-systemd: a login has no
# XDG_RUNTIME_DIR then, as in a container or under su.
packages=(
	systemd systemd-sysv dbus openssh-client openssl cron procps less curl jq tmux sudo
	opensmtpd prometheus prometheus-node-exporter
)
suite=bookworm

complain() { echo "demo-debian: not run: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || complain "a tree of Debian takes root: sudo make demo-debian"
for program in mmdebstrap apt-get sha256sum; do
	command -v "$program" >/dev/null || complain "$program is needed (Debian: apt-get install mmdebstrap)"
done

# sources prints the machine's own sources of this release, one a line, without those of other vendors.
sources() {
	apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
		sed -n "s/^Debian \(deb [^ ]* ${suite}[^ ]* main\)$/\1/p" | sort -u
}
sources=$(sources)
if [ -z "$sources" ]; then # apt knows whose a source is when it has its list
	apt-get update -qq >/dev/null 2>&1 || true
	sources=$(sources)
fi
[ -n "$sources" ] || complain "apt has no source of Debian $suite here"

# How apt reaches a mirror from here, and whether it believes the clock, hold for the tree as well.
options=(--aptopt='APT::Install-Recommends "false"')
while read -r option; do
	options+=("--aptopt=$option")
done < <(apt-config dump | grep -E '^Acquire::((https?::)?Proxy|Check-Date|Check-Valid-Until|Retries)' || true)

key=$(printf '%s\n' "${packages[@]}" "$sources" | cat - "$0" | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gated-debian
tree=$cache/$key
if [ ! -d "$tree" ]; then
	mkdir -p "$cache"
	making=$(mktemp -d "$cache/making.XXXXXX")
	trap 'rm -rf --one-file-system "$making"' EXIT
	began=$SECONDS
	include=$(IFS=,; printf '%s' "${packages[*]}")
	DEBIAN_FRONTEND=noninteractive mmdebstrap --quiet --variant=minbase --format=directory "${options[@]}" --dpkgopt=force-unsafe-io \
		--include="$include" "$suite" "$making/tree" - <<<"$sources" >"$making/log" 2>&1 || {
		tail -n 20 "$making/log" >&2
		complain "mmdebstrap could not make the tree"
	}
	# What mmdebstrap took from this machine, and servers that the story starts itself.
	echo demo >"$making/tree/etc/hostname"
	printf '127.0.0.1 localhost demo\n::1 localhost\n' >"$making/tree/etc/hosts"
	rm -f "$making/tree/etc/resolv.conf" "$making/tree/etc/machine-id"
	touch "$making/tree/etc/machine-id"
	chroot "$making/tree" systemctl --quiet disable opensmtpd prometheus prometheus-node-exporter
	rm -rf "$making"/tree/var/cache/apt/archives/*.deb
	mv "$making/tree" "$tree" 2>/dev/null || [ -d "$tree" ] # another run may have been first
	echo "demo-debian: a tree of Debian $suite was made in $((SECONDS - began)) s" >&2
fi
# A tree that no run asked for in a month belongs to an older list of packages.
touch "$tree"
find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf --one-file-system {} +
printf '%s\n' "$tree"
