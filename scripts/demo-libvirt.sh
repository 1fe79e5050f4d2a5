#!/usr/bin/env bash
# The main story of gated with real virtual machines: QEMU guests with real disks, behind a libvirtd that this
# script starts for itself, without systemd, in namespaces of its own. It needs root, and touches no libvirtd of
# the machine. Every step checks that what it says is so; the first one that is not ends the demo with exit code 1.
# It works in a temporary directory and leaves nothing behind. Run it with: sudo make demo-libvirt
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin # where libvirtd is
for program in libvirtd virsh qemu-img qemu-io qemu-system-x86_64 unshare ssh-keygen sha256sum; do
	command -v "$program" >/dev/null || {
		echo "demo-libvirt: $program is needed (Debian: apt-get install libvirt-daemon-system libvirt-daemon-driver-qemu qemu-system-x86 qemu-utils libvirt-clients openssh-client)" >&2
		exit 1
	}
done
[ "$(id -u)" = 0 ] || { echo "demo-libvirt: a libvirtd of its own takes root: sudo make demo-libvirt" >&2; exit 1; }
dir=$(mktemp -d /tmp/gated-demo-libvirt.XXXXXX) # short: the path of a socket has 107 bytes
name=demo-libvirt
. "$root/scripts/story.sh"
images=$dir/images
uri="qemu:///system?socket=$dir/sock/libvirt-sock"
libvirtd=

lv() { virsh -q -c "$uri" "$@"; }
disk() { lv domblklist "$1" | awk '$1 == "vda" { print $2 }'; }
sum() { sha256sum <"$1"; }

# start_libvirtd starts one whose files are all in the temporary directory, and whose processes all end with it.
start_libvirtd() {
	mkdir -p "$dir"/{etc/qemu,lib/qemu,cache,log,run,sock,images}
	cat >"$dir/etc/libvirtd.conf" <<EOF
unix_sock_dir = "$dir/sock"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
auth_unix_ro = "none"
EOF
	cat >"$dir/etc/qemu.conf" <<'EOF'
user = "root"
group = "root"
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
security_driver = "none"
EOF
	unshare --mount --pid --fork --kill-child --mount-proc sh -c 'set -e
		mount --make-rprivate /
		mount --bind "$1/etc" /etc/libvirt
		mount --bind "$1/lib" /var/lib/libvirt
		mount --bind "$1/cache" /var/cache/libvirt
		mount --bind "$1/log" /var/log/libvirt
		mount --bind "$1/run" /run
		libvirtd & wait $!' sh "$dir" >"$dir/libvirtd.log" 2>&1 &
	libvirtd=$!
	for _ in $(seq 600); do
		if lv version >/dev/null 2>&1; then return; fi
		kill -0 "$libvirtd" 2>/dev/null || break
		sleep 0.1
	done
	cat "$dir/libvirtd.log" >&2
	fail "libvirtd did not start"
}

# end_libvirtd ends libvirtd, and with it every guest.
end_libvirtd() {
	[ -n "$libvirtd" ] || return 0
	{ kill -KILL "$libvirtd" && wait "$libvirtd"; } 2>/dev/null || true
	libvirtd=
}

ended() { end_libvirtd; }

say "1. A libvirtd with a storage pool, and a gate before it"
start_libvirtd
lv pool-define-as default dir --target "$images" >/dev/null
lv pool-start default >/dev/null
ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f "$dir/alice"
ssh-keygen -q -t ed25519 -N '' -C mallory@example.com -f "$dir/mallory"
silent 0 gated init --state "$state" --host demo --operator "$dir/alice.pub"
cat >>"$state/gated.yaml" <<EOF
libvirt:
  socket: $dir/sock/libvirt-sock
  stop_grace: 1s
  templates:
    default: {memory: 64, disk: 32, type: qemu}
desired:
  interval: 2s
EOF
sed "s|$dir|\$DEMO|g; s/^/    /" <<<"$(sed -n '/^libvirt:/,/default:/p' "$state/gated.yaml")"
start
note "the daemon runs as process $daemon"

say "2. Desired state with three guests: made at once, because nothing can be lost"
cat >"$dir/fleet.yaml" <<'EOF'
apiVersion: gated/v1
host: demo
guests:
  - {name: web, state: running, memory: 64MiB, labels: {tier: prod}}
  - {name: db, state: stopped, memory: 48MiB}
  - {name: cache, state: stopped}
EOF
expect 0 gated apply -f "$dir/fleet.yaml" --wait
declare -A disks
for guest in web db cache; do
	disks[$guest]=$(disk "$guest")
	[ -s "${disks[$guest]}" ] || fail "$guest has no disk"
done
for guest in db cache; do
	qemu-io -f qcow2 -c "write -P $((RANDOM % 255 + 1)) 0 4M" "${disks[$guest]}" >/dev/null
done
expect 0 gated guests
printed running
[ "$(lv domstate web)" = running ] || fail "web does not run: $(lv domstate web --reason)"

say "3. A change that loses nothing runs at once"
sed -i 's/48MiB/56MiB/' "$dir/fleet.yaml"
expect 0 gated apply -f "$dir/fleet.yaml" --wait
lv dumpxml db | grep -q "<memory unit='KiB'>57344</memory>" || fail "db has not 56 MiB"
note "libvirt says: $(lv dumpxml db | grep -o "<memory.*</memory>")"

say "4. Somebody marks db absent: that would lose its disk, so it waits"
db_before=$(sum "${disks[db]}")
cache_before=$(sum "${disks[cache]}")
sed -i 's/{name: db.*/{name: db, state: absent}/' "$dir/fleet.yaml"
expect 0 gated plan -f "$dir/fleet.yaml"
expect 3 gated apply -f "$dir/fleet.yaml" --wait
silent 0 opsign list --json
request=$(field id)
[ -n "$request" ] || fail "nothing waits"
expect 0 opsign show "$request"
printed 'cannot be brought back'
[ "$(sum "${disks[db]}")" = "$db_before" ] || fail "db changed without a signature"
note "the guest and its disk are still there, untouched"

say "5. Signed by the wrong key, nothing happens"
brief 2 1 opsign approve "$request" --key "$dir/mallory" --yes
printed unknown_signer
[ "$(sum "${disks[db]}")" = "$db_before" ] || fail "db changed"

say "6. Somebody makes another db in its place, with the same UUID and a copy of the disk: the request is not for that one"
lv dumpxml db --inactive >"$dir/db.xml"
lv undefine db
cp "${disks[db]}" "$dir/copy" && rm "${disks[db]}" && cp "$dir/copy" "${disks[db]}"
lv define "$dir/db.xml"
brief 3 1 opsign approve "$request" --key "$dir/alice" --yes
[ "$(sum "${disks[db]}")" = "$db_before" ] || fail "the other db was destroyed"
expect 3 gated submit guest.destroy db --reason "this one, then"
# Not from opsign list: until the next round it has the request for the other db as well.
request=$(sed -n 's/.*opsign approve //p' "$dir/out" | head -n 1)
[ -n "$request" ] || fail "nothing waits"

say "7. Alice looks, signs exactly this step, and it runs"
silent 0 opsign show "$request"
expect 0 opsign approve "$request" --key "$dir/alice" --yes
printed 'destroyed guest/db'
[ ! -e "${disks[db]}" ] || fail "the disk of db is still there"
if lv dominfo db >/dev/null 2>&1; then fail "db is still there"; fi
[ "$(sum "${disks[cache]}")" = "$cache_before" ] || fail "a bystander changed"
[ "$(lv domstate web)" = running ] || fail "web was stopped"
note "the disk of cache is what it was, byte by byte, and web still runs"

say "8. libvirtd goes away: guests are unknown, nothing is planned, and it goes on when it is back"
sed -i '/name: db/d; /name: cache/d' "$dir/fleet.yaml"
silent 0 gated apply -f "$dir/fleet.yaml" --wait
end_libvirtd
rm -f "$dir/sock/libvirt-sock"
for _ in $(seq 600); do
	gated guests >"$dir/out" 2>&1 || true
	grep -q unknown "$dir/out" && break
	sleep 0.1
done
printed unknown
sed "s|$dir|\$DEMO|g; s/^/    /" "$dir/out"
start_libvirtd
for _ in $(seq 200); do
	[ "$(lv domstate web)" = running ] && break
	sleep 0.2
done
[ "$(lv domstate web)" = running ] || fail "web was not started again"
note "web, which ended with that libvirtd, was started again"

say "9. Every decision is in the audit log, and the log is whole"
expect 0 gated audit verify --state "$state"
expect 0 gated fsck --state "$state"
stop
say "Done: no disk was deleted that was not signed for."
