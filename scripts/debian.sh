# Boots a Debian of its own in a container: scripts/demo-debian.sh sources this. It sets root (of the repository), name
# (of its make target) and dir (a temporary directory). The container has systemd as its process 1, every namespace of
# its own, no network but loopback, and a layer above the tree that goes with dir.
machine=            # systemd-nspawn
leader=             # the container's process 1
groups=()           # cgroups that were made for it

# cgroups makes a group of the container's own where systemd keeps its units: without a systemd on this machine,
# systemd-nspawn would divide the group in which this script runs.
cgroups() {
	local mount type options path
	while read -r _ mount type options _; do
		case $type,$options in
		cgroup2,*) path=$(sed -n 's/^0:://p' /proc/self/cgroup) ;;
		cgroup,*name=systemd*) path=$(sed -n 's/^[0-9]*:name=systemd://p' /proc/self/cgroup) ;;
		*) continue ;;
		esac
		groups+=("$mount${path%/}/gated-debian-$$")
	done </proc/mounts
	for path in "${groups[@]}"; do mkdir "$path"; done
}

# boot TREE OPTIONS... boots it and waits until every unit of the boot has started.
boot() {
	local tree=$1 group
	shift
	mkdir -p "$dir/upper" "$dir/work" "$dir/debian"
	mount -t overlay gated-debian -o "lowerdir=$tree,upperdir=$dir/upper,workdir=$dir/work" "$dir/debian"
	local options=(--quiet --register=no --machine=demo --directory="$dir/debian" --private-network --resolv-conf=off
		--timezone=off --link-journal=no --console=pipe)
	if [ ! -d /run/systemd/system ]; then
		options+=(--keep-unit)
		cgroups
	fi
	(
		for group in "${groups[@]}"; do echo "$BASHPID" >"$group/cgroup.procs"; done
		# Debian 12 itself boots with cgroups of version 2 alone.
		SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec systemd-nspawn "${options[@]}" "$@" --boot
	) </dev/null >"$dir/console" 2>&1 &
	machine=$!
	booted
	# The container has a boot id of its own above the kernel's, and a unit with ProtectKernelTunables does not see it. On
	# a machine all see one.
	while enter umount /proc/sys/kernel/random/boot_id 2>/dev/null; do :; done
}

# booted waits for the container's systemd: until the boot is over, and with no unit that failed.
booted() {
	local state=
	for _ in $(seq 600); do
		kill -0 "$machine" 2>/dev/null || { cat "$dir/console" >&2; fail "the container ended"; }
		leader=$(pgrep -P "$machine" | head -n 1 || true)
		if [ -n "$leader" ] && [ -S "$dir/debian/run/systemd/private" ] || enter test -S /run/systemd/private 2>/dev/null; then
			state=$(enter systemctl is-system-running --wait 2>/dev/null || true)
			[ "$state" != running ] || return 0
			[ "$state" != degraded ] || { enter systemctl --no-pager --failed >&2; fail "a unit failed at the boot"; }
		fi
		sleep 0.05
	done
	fail "Debian did not boot: ${state:-no systemd}"
}

# enter COMMAND... runs it in the container, below nobody there; inside has it run by the container's systemd, as a unit.
enter() {
	[ -n "$leader" ] && nsenter -t "$leader" -m -u -i -n -p -C -- "$@"
}

inside() {
	enter systemd-run --quiet --pipe --wait --collect --service-type=exec -- "$@"
}

# halted ends the container, and removes what was made for it.
halted() {
	local code=$? group
	[ -n "$dir" ] || return "$code"
	[ -z "$machine" ] || kill -KILL ${leader:+"$leader"} "$machine" 2>/dev/null || true
	[ -z "$machine" ] || wait "$machine" 2>/dev/null || true
	for group in "${groups[@]}"; do
		# The kernel takes a moment until it knows that a group has no process any more.
		for _ in $(seq 600); do
			find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
			[ -d "$group" ] || break
			sleep 0.05
		done
	done
	machine="" leader="" groups=()
	umount -l "$dir/debian" 2>/dev/null || true
	rm -rf --one-file-system "$dir"
	dir=
	return "$code"
}
