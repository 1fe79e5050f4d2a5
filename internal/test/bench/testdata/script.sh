#!/usr/bin/env bash
# A gate that an administrator could write in an evening. It checks the signature, takes the lock, refuses a
# nonce that it has seen, appends the nonce, and waits until that is on disk. It checks less than gated does:
# not the host, the time, the target or the parameters.
#   script.sh CLIENTS EACH   in a directory with allowed_signers, nonces and op.N.json, op.N.sig
set -eu
clients=$1 each=$2

decide() {
	local payload nonce
	ssh-keygen -Y verify -f allowed_signers -I alice@example.com -n operational@gated -s "op.$1.sig" <"op.$1.json" >/dev/null
	payload=$(<"op.$1.json")
	[[ $payload =~ \"nonce\":\"([A-Za-z0-9_-]+)\" ]]
	nonce=${BASH_REMATCH[1]}
	exec 9>lock
	flock 9
	if grep -qxF -- "$nonce" nonces; then
		echo "replayed: $nonce" >&2
		return 1
	fi
	printf '%s\n' "$nonce" >>nonces
	sync -d nonces
	exec 9>&-
}

client() {
	local i
	for ((i = 0; i < each; i++)); do decide $((i * clients + $1)); done
}

for ((c = 0; c < clients; c++)); do client "$c" & done
for job in $(jobs -p); do wait "$job"; done
