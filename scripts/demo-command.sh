#!/usr/bin/env bash
# Commands behind the gate, with a real PostgreSQL: an agent asks for a database to be dropped, the operator sees what
# would go and signs exactly that. Every step checks that what it says is so; the first one that is not ends the demo
# with exit code 1. It works in a temporary directory, with a cluster of its own on a socket alone, and leaves nothing
# behind. As root, the cluster and the commands are the user postgres's; else yours, and gated says that this is no
# wall. Run it with: make demo-command
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
if [ ! -x "$pg/initdb" ] || ! command -v ssh-keygen >/dev/null; then
	echo "demo-command: a PostgreSQL server and ssh-keygen are needed (Debian: apt-get install postgresql openssh-client)" >&2
	exit 1
fi
dir=$(mktemp -d /tmp/gated-demo-command.XXXXXX) # short: the path of a socket has 107 bytes
name=demo-command
. "$root/scripts/story.sh"
lib=$dir/lib # what would be /usr/local/lib/gated
cluster=

# as_postgres runs a command as the owner of the cluster.
if [ "$(id -u)" = 0 ]; then
	owner=postgres single=false
	as_postgres() { (cd / && setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"); }
else
	owner=$(id -un) single=true
	as_postgres() { (cd / && "$@"); }
fi

sql() { as_postgres "$pg/psql" -XAtq -h "$dir/pg" -d "$1" -c "$2"; }
databases() { sql postgres "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"; }
sum() { as_postgres "$pg/pg_dump" -h "$dir/pg" "$1" | grep -v '^\\\(un\)\{0,1\}restrict ' | sha256sum; }

ended() {
	[ -z "$cluster" ] || as_postgres "$pg/pg_ctl" -D "$dir/pg/data" -w -m immediate stop >/dev/null 2>&1
}

say "1. A PostgreSQL with two databases, shop_old and shop"
chmod 755 "$dir"
mkdir "$dir/pg" "$lib"
[ "$owner" != postgres ] || chown postgres "$dir/pg"
as_postgres "$pg/initdb" --no-sync --auth=trust --encoding=UTF8 --no-locale -D "$dir/pg/data" >"$dir/initdb.log" 2>&1 ||
	{ cat "$dir/initdb.log" >&2; fail "initdb"; }
cluster=started
as_postgres "$pg/pg_ctl" -D "$dir/pg/data" -l "$dir/pg/log" -w -o "-F -k $dir/pg -c listen_addresses=''" start >/dev/null ||
	fail "the cluster did not start"
for db in shop_old shop; do
	sql postgres "CREATE DATABASE $db"
	sql "$db" "CREATE TABLE orders (id int, what text); INSERT INTO orders SELECT n, 'order ' || n FROM generate_series(1, 5000) n; CREATE TABLE customers (name text); INSERT INTO customers VALUES ('alice'), ('bob')"
done
[ "$(databases)" = "shop shop_old" ] || fail "the databases are not there"
note "databases: $(databases)"

say "2. The catalogue: examples/commands/dropdb, with a wrapper of this site around dropdb"
ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f "$dir/alice"
silent 0 gated init --state "$state" --host demo --operator "$dir/alice.pub"
install -m 0755 "$root/examples/commands/dropdb/probe-database" "$lib/probe-database"
cat >"$lib/drop-database" <<END
#!/bin/sh
# What this site does when it drops a database.
set -eu
echo "dropping \$1"
exec $pg/dropdb --no-password -- "\$1"
END
chmod 755 "$lib/drop-database"
sed -i '/^single_user:/d' "$state/gated.yaml"
echo "single_user: $single" >>"$state/gated.yaml"
sed "s|/usr/local/lib/gated|$lib|g; s|/run/postgresql|$dir/pg|; s|/usr/lib/postgresql/[0-9]*/bin|$pg|g; s|user: postgres|user: $owner|
	s|argv: .*|argv: [$lib/drop-database, \"{database}\"]|" "$root/examples/commands/dropdb/gated.yaml" >>"$state/gated.yaml"
sed -n '/^commands:/,$p' "$state/gated.yaml" | sed "s|$dir|\$DEMO|g; s/^/    /"
start
expect 0 gated commands
printed drop-db

say "3. What does not fit the catalogue is refused at once"
brief 2 1 gated submit command.run drop-db -p database=--help
printed bad_params
brief 2 1 gated submit command.run drop-db -p 'database=shop; DROP TABLE orders'
printed bad_params
brief 2 1 gated submit command.run drop-everything

say "4. An agent asks for shop_old to be dropped. Nobody has said that this loses nothing, so it waits"
before=$(sum shop)
expect 3 gated submit command.run drop-db -p database=shop_old --reason "the shop has moved" --wait
silent 0 opsign list --json
request=$(field id)
[ -n "$request" ] || fail "nothing waits"
expect 0 opsign show "$request"
printed 'rows in public.orders: 5000'
printed 'rows in public.customers: 2'
[ "$(databases)" = "shop shop_old" ] || fail "something was dropped without a signature"

say "5. Somebody changes the wrapper while it waits: what would run is not what was asked for"
opsign show "$request" --payload >"$dir/old.json"
ssh-keygen -q -Y sign -n operational@gated -f "$dir/alice" "$dir/old.json"
sed -i 's/^exec.*/for db in shop_old shop; do '"${pg//\//\\/}"'\/dropdb --no-password -- $db; done/' "$lib/drop-database"
brief 2 1 opsign submit "$dir/old.json" --sig "$dir/old.json.sig"
printed stale_target
[ "$(databases)" = "shop shop_old" ] || fail "the changed script ran"
note "nothing ran; both databases are there"
sed -i "s|^for db.*|exec $pg/dropdb --no-password -- \"\$1\"|" "$lib/drop-database"

say "6. It is put right, and asked for again. Then somebody writes to the database: that is not what alice saw"
silent 3 gated submit command.run drop-db -p database=shop_old --reason "the shop has moved"
silent 0 opsign list --json
request=$(field id)
opsign show "$request" --payload >"$dir/seen.json"
ssh-keygen -q -Y sign -n operational@gated -f "$dir/alice" "$dir/seen.json"
sql shop_old "INSERT INTO orders VALUES (5001, 'the last one')"
brief 2 1 opsign submit "$dir/seen.json" --sig "$dir/seen.json.sig"
printed stale_target
[ "$(databases)" = "shop shop_old" ] || fail "a database was dropped that nobody had looked at"

say "7. alice looks again, and signs what is there now"
for _ in $(seq 1000); do
	silent 0 opsign list --json
	request=$(field id)
	silent 0 opsign show "$request"
	if grep -q 'public.orders: 5001' "$dir/out"; then break; fi
	sleep 0.05
done
printed 'rows in public.orders: 5001'
brief 1 0 opsign approve "$request" --key "$dir/alice" --yes
[ "$(databases)" = shop ] || fail "shop_old is still there: $(databases)"
[ "$(sum shop)" = "$before" ] || fail "the other database changed"
note "databases: $(databases); shop is what it was, row by row"
silent 0 gated jobs "${request%.*}"
printed 'dropping shop_old'
note "what the command printed is kept with its job: $(grep -o 'dropping shop_old' "$dir/out" | head -n 1)"

say "8. An approval counts once, and the log is whole"
opsign show "$request" --payload >"$dir/done.json"
ssh-keygen -q -Y sign -n operational@gated -f "$dir/alice" "$dir/done.json"
sql postgres "CREATE DATABASE shop_old"
brief 2 1 opsign submit "$dir/done.json" --sig "$dir/done.json.sig"
printed replayed
[ "$(databases)" = "shop shop_old" ] || fail "a replay dropped a database"
expect 0 gated audit verify --state "$state"
expect 0 gated fsck --state "$state"
stop
say "Done: nothing was dropped that was not looked at and signed for."
