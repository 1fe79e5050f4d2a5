#!/usr/bin/env bash
# What the tests run against, beside Go: scripts/needs.sh [install]
#
# Prints the Debian packages that are missing, one a line, and exits 1 if there
# are any; with "install" it installs them, as root or through sudo without a
# password. Without them some tests are skipped, each with what it needs.
set -euo pipefail

# package, and what shows that it is there.
needs=(
	"openssh-client ssh-keygen"
	"make make"
	"git git"
	"procps pgrep"
	"tmux tmux"
	"curl curl"
	"jq jq"
	"gcc gcc"
	"libc6-dev /usr/include/stdlib.h"
	"libvirt-daemon-system libvirtd"
	"libvirt-clients virsh"
	"libvirt-daemon-driver-qemu /usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"
	"qemu-system-x86 qemu-system-x86_64"
	"qemu-utils qemu-img"
	"postgresql /usr/lib/postgresql"
	"pgbouncer pgbouncer"
	"btrfs-progs mkfs.btrfs"
	"lintian lintian"
	"shellcheck shellcheck"
	"rpm rpm"
	"mmdebstrap mmdebstrap"
	"systemd systemd-analyze"
	"prometheus promtool"
	"systemd-container systemd-nspawn"
)

there() {
	case $1 in
	/*) [ -e "$1" ] ;;
	*) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 ;;
	esac
}

missing=()
for row in "${needs[@]}"; do
	there "${row#* }" || missing+=("${row%% *}")
done
if [ "${#missing[@]}" -eq 0 ]; then
	exit 0
fi
if [ "${1-}" != install ]; then
	printf '%s\n' "${missing[@]}"
	exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! sudo -n true 2>/dev/null; then
		echo "as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo -n)
fi
command -v apt-get >/dev/null || {
	echo "this is not Debian; install what there is of: ${missing[*]}" >&2
	exit 1
}
echo "installing ${missing[*]}"
# One run at a time, because apt-get does not wait for the lists that another one fetches.
"${as_root[@]}" flock /var/lib/apt/lists sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "$@"' sh "${missing[@]}"
