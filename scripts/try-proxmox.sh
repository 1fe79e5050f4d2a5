#!/usr/bin/env bash
# Tries the Proxmox VE driver on a real test node: makes, changes and destroys guests of its own through a gate of its
# own, and checks each step. It touches no other guest: new guests get numbers of the given range that nobody has, names
# that begin with gtry, and only those are changed or destroyed. It ends at the first step that is not what it says, with
# exit code 1, names what it left behind, and keeps the gate's state and log; it makes nothing where gated doctor finds
# something bad in the cluster. gated and opsign are taken from GATED_BIN or bin/ (make build).
set -euo pipefail

usage() {
	cat >&2 <<'END'
usage: scripts/try-proxmox.sh --url https://NODE:8006 --token-file FILE (--ca-file FILE | --fingerprint AB:CD:...)
           --node NODE --storage STORAGE --first VMID --last VMID --yes-destroy-guests-in-this-range
           [--backup-storage STORAGE] [--ostemplate VOLUME] [--pool POOL]

  The token file has one line user@realm!name=secret and mode 0600. docs/guides/proxmox-driver.md says how to make one.
  With --ostemplate containers are tried, too; with --backup-storage backups.
END
	exit 2
}

url= token= ca= fingerprint= node= storage= first= last= backups= ostemplate= pool= sure=
while [ $# -gt 0 ]; do
	case $1 in
	--yes-destroy-guests-in-this-range) sure=yes; shift; continue ;;
	esac
	[ $# -ge 2 ] || usage
	case $1 in
	--url) url=$2 ;; --token-file) token=$(realpath -- "$2") ;; --ca-file) ca=$(realpath -- "$2") ;; --fingerprint) fingerprint=$2 ;;
	--node) node=$2 ;; --storage) storage=$2 ;; --first) first=$2 ;; --last) last=$2 ;;
	--backup-storage) backups=$2 ;; --ostemplate) ostemplate=$2 ;; --pool) pool=$2 ;;
	*) usage ;;
	esac
	shift 2
done
for need in "$url" "$token" "$node" "$storage" "$first" "$last" "$ca$fingerprint"; do [ -n "$need" ] || usage; done
if [ "$sure" != yes ]; then
	echo "try-proxmox: refused: say --yes-destroy-guests-in-this-range if $node is a test node" >&2
	exit 2
fi
if ! [ "$first" -ge 100 ] 2>/dev/null || ! [ "$last" -ge $((first + 3)) ] 2>/dev/null; then
	echo "try-proxmox: the range needs four numbers at least, from 100 on" >&2
	exit 2
fi

root=$(cd "$(dirname "$0")/.." && pwd)
bin=${GATED_BIN:-$root/bin}
[ -x "$bin/gated" ] && [ -x "$bin/opsign" ] || { echo "try-proxmox: there is no $bin/gated; make build" >&2; exit 2; }
export PATH=$bin:$PATH
dir=$(mktemp -d /tmp/gated-try.XXXXXX)
export GATED_SOCKET=$dir/gated.sock XDG_CONFIG_HOME=$dir/config
unset GATED_HOST
run=gtry$RANDOM
daemon= made=()

say() { printf '\n%s\n' "$*"; }
fail() { printf '\ntry-proxmox: FAILED: %s\n' "$*" >&2; exit 1; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$dir/out" | head -n 1; }

# try CODE COMMAND... runs a command, shows it, and checks its exit code.
try() {
	local want=$1 got=0
	shift
	printf '  $ %s\n' "$*"
	"$@" >"$dir/out" 2>&1 || got=$?
	[ "$got" = "$want" ] && return
	cat "$dir/out" >&2
	fail "it exited $got, not $want"
}

start() {
	gated serve --state "$dir/state" --socket "$GATED_SOCKET" >>"$dir/daemon.log" 2>&1 &
	daemon=$!
	for _ in $(seq 400); do
		gated status >/dev/null 2>&1 && return
		kill -0 "$daemon" 2>/dev/null || { cat "$dir/daemon.log" >&2; fail "the daemon did not start"; }
		sleep 0.05
	done
	fail "the daemon did not answer"
}

stop() {
	[ -z "$daemon" ] || kill -TERM "$daemon" 2>/dev/null || true
	[ -z "$daemon" ] || wait "$daemon" || true
	daemon=
}

cleanup() {
	local code=$?
	set +e
	stop
	if [ "$code" != 0 ]; then
		[ -f "$dir/daemon.log" ] && tail -n 30 "$dir/daemon.log" >&2
		[ "${#made[@]}" = 0 ] || echo "try-proxmox: guests that may be left behind on $node: ${made[*]}" >&2
		echo "try-proxmox: the gate's state and log are kept in $dir" >&2
	else
		rm -rf "$dir"
	fi
	exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# shows NAME PATTERN checks what the gate says of a guest.
shows() {
	try 0 gated guests "$1"
	grep -Eq -- "$2" "$dir/out" || { cat "$dir/out" >&2; fail "gated guests $1 does not show '$2'"; }
}

# signed OP NAME PARAMETERS... asks for what needs a signature, checks that it waits, and signs it.
signed() {
	try 3 gated submit "$@" --reason try-proxmox
	local job
	try 0 opsign list --json
	job=$(field id)
	[ -n "$job" ] || fail "nothing waits for a signature"
	try 0 opsign show "$job"
	sed 's/^/      /' "$dir/out"
	try 0 opsign approve "$job" --key "$dir/key" --yes
}

# gone NAME waits until the guest is not there.
gone() {
	for _ in $(seq 600); do
		gated guests --json >"$dir/out" 2>&1 || fail "the guests cannot be listed"
		grep -q "guest/$1\"" "$dir/out" || return 0
		sleep 0.1
	done
	fail "$1 is still there"
}

ssh-keygen -q -t ed25519 -N '' -C try@example.com -f "$dir/key"
try 0 gated init --state "$dir/state" --host try --operator "$dir/key.pub"
{
	echo "proxmox:"
	echo "  url: $url"
	echo "  token_file: $token"
	[ -z "$ca" ] || echo "  ca_file: $ca"
	[ -z "$fingerprint" ] || echo "  fingerprint: $fingerprint"
	[ -z "$pool" ] || echo "  pool: $pool"
	[ -z "$backups" ] || echo "  backup_storage: $backups"
	echo "  node: $node"
	echo "  storage: $storage"
	echo "  vmids: {first: $first, last: $last}"
	echo "  stop_grace: 5s"
	echo "  templates:"
	echo "    machine: {kind: qemu, disk: 1, ostype: l26}"
	[ -z "$ostemplate" ] || echo "    container: {kind: lxc, ostemplate: \"$ostemplate\", disk: 1}"
} >>"$dir/state/gated.yaml"
start

say "What the cluster says of itself"
gated doctor --json >"$dir/out" 2>&1 || true
grep -o '"what":"[^"]*","state":"[^"]*"' "$dir/out" | grep proxmox >"$dir/found" || { cat "$dir/out" >&2; fail "gated doctor says nothing of the cluster"; }
sed 's/^/      /' "$dir/found"
# What doctor finds of hooks and agents is not about the cluster.
if grep -q '"state":"bad"' "$dir/found"; then cat "$dir/out" >&2; fail "gated doctor finds something bad in the cluster: nothing was made"; fi

whole() { # KIND: the life of one guest
	local kind=$1 a=$run-$1 disk=$2 more=$3
	say "A $kind: made, started, changed, copied"
	made+=("$a")
	try 0 gated submit guest.create "$a" -p template="$kind" -p memory=128 --wait
	shows "$a" 128
	try 0 gated submit guest.start "$a" --wait
	shows "$a" running
	try 0 gated submit guest.stop "$a" --wait
	shows "$a" stopped
	try 0 gated submit guest.set-config "$a" -p memory=160 -p labels.tier=try --wait
	shows "$a" 160
	try 0 gated submit guest.snapshot "$a" -p snapshot=before --wait
	shows "$a" before
	signed guest.restore "$a" -p snapshot=before
	signed guest.snapshot-delete "$a" -p snapshot=before
	try 0 gated submit guest.disk-resize "$a" -p disk="$disk" -p size=2048 --wait
	try 0 gated submit guest.disk-create "$a" -p disk="$more" -p size=1024 --wait
	shows "$a" "$more"
	signed guest.disk-detach "$a" -p disk="$more"
	signed guest.disk-delete "$a" -p disk=unused0
	made+=("$a-copy")
	try 0 gated submit guest.clone "$a-copy" -p from="$a" --wait
	shows "$a-copy" tier
	if [ -n "$backups" ]; then
		say "A $kind: its backups"
		try 0 gated submit guest.backup "$a" --wait
		try 0 gated guests "$a" --json
		local archive
		archive=$(grep -o 'vzdump-[A-Za-z0-9._-]*' "$dir/out" | head -n 1)
		[ -n "$archive" ] || fail "the backup is not listed"
		signed guest.backup-restore "$a" -p backup="$archive"
		signed guest.backup-delete "$a" -p backup="$archive"
	fi
	say "A $kind: destroyed, and its copy is left alone until it is asked for"
	signed guest.destroy "$a"
	gone "$a"
	shows "$a-copy" stopped
	signed guest.destroy "$a-copy"
	gone "$a-copy"
}

whole machine scsi0 scsi1
[ -z "$ostemplate" ] || whole container rootfs mp0
say "Everything was as it should be. $run made ${#made[@]} guests and destroyed them."
