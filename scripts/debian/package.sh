#!/usr/bin/env bash
# From apt install to apt purge: what the package does to a gate. /packages has two versions, in the order in which they
# upgrade.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/package.XXXXXX)
pages=/usr/share/doc/gated
. /src/scripts/debian/typed.sh
. /src/scripts/debian/hosts.sh
mapfile -t debs < <(find /packages -name '*.deb' | sort -V)
[ "${#debs[@]}" = 2 ] || fail "/packages has ${#debs[@]} packages, not two"
install -D -m 0644 "${debs[0]}" /tmp/old/gated.deb
install -D -m 0644 "${debs[1]}" /tmp/new/gated.deb
old=$(dpkg-deb -f "${debs[0]}" Version)
new=$(dpkg-deb -f "${debs[1]}" Version)
people

say "Two commands of root, and the gate is there"
told root 0 'cd /tmp/old && apt install ./gated.deb'
healthy
told root 0 "gated setup --operator ~alice/.ssh/id_ed25519.pub:alice@example.com --who-may-ask agent --who-may-ask alice --yes"
healthy
verified /usr/lib/systemd/system/gated*

say "An agent in a bare login asks, and alice hears of it by mail"
told agent 0 'env | grep -c GATED; gated status | head -n 2' || true
mails
told agent 0 'gated submit guest.create web --wait'
told agent 3 "gated submit guest.destroy web --reason 'the project is over'"
mailed alice 'j2.1 guest.destroy guest/web waits for a signature'
told alice 0 'opsign approve j2.1 --key .ssh/id_ed25519 --yes | tail -n 1'
printed 'destroyed guest/web'
mailed alice 'guest/web was done'

say "A real Prometheus has what the gate counts"
scraped

say "Calls wait while the daemon restarts, and none fails"
calls_while 'systemctl restart gated'
calls_while 'systemctl reload gated'
calls_while 'systemctl kill --signal=KILL gated; sleep 3'
healthy
