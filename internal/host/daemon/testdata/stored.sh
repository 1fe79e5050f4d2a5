#!/bin/sh
# Makes a stored database: a gate's state as the programs of a commit wrote it,
# with history in it, for the tests of migrations.
#
#   internal/host/daemon/testdata/stored.sh COMMIT [FROM]
#
# builds COMMIT in a directory of its own, has its programs make and run a gate,
# and writes internal/host/daemon/testdata/schema-N, N being the schema that they
# have. Run it once at the end of a release that has a new schema, with the
# commit that was released; a stored database is never made again by later code.
set -eu
commit=$(git rev-parse --short=12 "$1")
out=$(git rev-parse --show-toplevel)/internal/host/daemon/testdata
work=$(mktemp -d)
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$work"' EXIT
daemon=
mkdir "$work/src"
git archive "$commit" | tar x -C "$work/src"
(cd "$work/src" && CGO_ENABLED=0 go build -o "$work/bin/" ./cmd/...)
export PATH="$work/bin:$PATH" HOME="$work" GATED_SOCKET="$work/s" XDG_STATE_HOME="$work" XDG_CONFIG_HOME="$work"
cd "$work"

key() { ssh-keygen -q -t ed25519 -N '' -C "$1@example.com" -f "$1"; }
waits() { "$@" && exit 1 || [ $? = 3 ]; } # exit code 3: it waits for a signature
can() { "$@" --help >/dev/null 2>&1; }

key alice
key bob
key vault
key carol
if gated init --help | grep -q -- --coordinator; then coordinator='--coordinator carol.pub'; else coordinator=; fi
gated init --state state --host pve1 --operator alice.pub --recovery vault.pub $coordinator >/dev/null 2>&1
gated serve --state state 2>daemon.log &
daemon=$!
until gated status >/dev/null 2>&1; do kill -0 $daemon; done

# Guests, one destroyed by a signature that was handed in as two files.
for name in web db app old; do gated submit guest.create $name --wait >/dev/null; done
waits gated submit guest.destroy db --reason 'stored: signed and run' >/dev/null
opsign show j5.1 --payload >spent.json
ssh-keygen -q -Y sign -n operational@gated -f alice spent.json 2>/dev/null
opsign submit spent.json --sig spent.json.sig >/dev/null
until gated jobs j5 | grep -q succeeded; do kill -0 $daemon; done

# One that was rejected, and one that waits.
waits gated submit guest.destroy old --reason 'stored: rejected' >/dev/null
opsign reject j6.1 --key alice --reason 'stored' --yes >/dev/null 2>&1 || opsign reject j6.1 --key alice --reason stored >/dev/null
waits gated submit guest.destroy web --reason 'stored: waits' >/dev/null

# Versions of the list of signers: bob comes and goes, and comes again.
if can gated trust rotate; then
	rotated() { # the epoch that has to come
		until [ "$(gated trust history --state state --json | grep -c '"epoch"')" = "$1" ]; do kill -0 $daemon; done
	}
	bob=$(ssh-keygen -l -f bob.pub | cut -d' ' -f2)
	waits gated trust rotate --operator bob.pub --reason 'stored: bob comes' >/dev/null
	opsign show j8.1 >/dev/null # --yes signs what was shown
	waits opsign approve j8.1 --role operational --key bob --yes >/dev/null
	opsign approve j8.1 --key alice --yes >/dev/null
	rotated 2
	waits gated trust rotate --remove "$bob" --reason 'stored: bob goes' >/dev/null
	opsign show j9.1 >/dev/null
	opsign approve j9.1 --key alice --yes >/dev/null
	rotated 3
fi

# An agent, by a token so that no process is needed, and what it reserved.
if can gated agent register; then
	git init -q repo
	gated agent register builder --token-file token >/dev/null
	(cd repo && GATED_AGENT_TOKEN_FILE=../token gated reserve 'src/**' --ttl 24h --reason 'stored' >/dev/null)
	gated agent register other --token-file token2 >/dev/null
	(cd repo && GATED_AGENT_TOKEN_FILE=../token2 gated reserve docs/ --ttl 24h >/dev/null)
	(cd repo && GATED_AGENT_TOKEN_FILE=../token gated release --mine >/dev/null)
fi

kill $daemon
wait $daemon
daemon=
schema=$(od -An -t u1 -j 60 -N 4 state/gated.db | awk '{ print (($1 * 256 + $2) * 256 + $3) * 256 + $4 }')
to=$out/schema-$schema
mkdir -p "$to"
gzip -9nc state/gated.db >"$to/gated.db.gz"
cp state/allowed_signers state/gated.yaml alice spent.json spent.json.sig "$to/"
[ ! -e state/gate.key ] || cp state/gate.key "$to/" # without it a gate that signs its heads does not start
sed -i "s|$work|/var/lib|g" "$to/gated.yaml"
cat >"$to/README" <<END
The state of a gate as commit $commit left it (schema $schema), made by ../stored.sh; alice is the key that may sign, of no other use.
END
echo "$to"
