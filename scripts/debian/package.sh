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
install -D -m 0644 -t /tmp/built/dist/packages "${debs[0]}"
install -D -m 0644 "${debs[1]}" /tmp/new/gated.deb
people

say "README's two commands, as root types them, and the gate is there"
mapfile -t commands < <(pages=/src block README.md Install 1 | sed 's/^sudo //; s/  *#.*//')
[ "${#commands[@]}" = 2 ] || fail "README installs with ${#commands[@]} commands, not two"
told root 0 "cd /tmp/built && ${commands[0]}"
healthy
told root 0 "${commands[1]} --operator ~alice/.ssh/id_ed25519.pub:alice@example.com --who-may-ask agent --who-may-ask alice --yes"
healthy
verified /usr/lib/systemd/system/gated*

say "A user's own gate, beside the host's"
# shellcheck disable=SC2016 # the login's shell expands it
told alice 0 'gated init --operator .ssh/id_ed25519.pub >/dev/null 2>&1; gated serve 2>log & until [ -S .local/state/gated/gated.sock ]; do sleep 0.05; done
	gated status | head -n 1; kill %1; wait %1; rm -r .local/state/gated log'
printed "^gated .*, uid $(id -u alice),"
told alice 0 'gated status | head -n 1'
printed "^gated .*, uid $(id -u gated),"

say "An agent in a bare login asks, and alice hears of it by mail"
told agent 0 'if env | grep GATED; then exit 1; fi; gated status | head -n 2'
mails
told agent 0 'gated submit guest.create web --wait'
told agent 3 "gated submit guest.destroy web --reason 'the project is over'"
mailed alice '^type: opsign approve j2.1$'
told alice 0 'opsign approve j2.1 --key .ssh/id_ed25519 --yes | tail -n 1'
printed 'destroyed guest/web'
mailed alice '^Subject: demo: j2.1 .* was done$'

say "A real Prometheus has what the gate counts"
login agent 3 "gated submit guest.create db --wait; gated submit guest.destroy db --reason 'to be kept over upgrades'"
scraped
printed '^gated_requests_pending 1$'

say "Calls wait while the daemon restarts, and none fails; one that comes after a kill starts it"
calls_while 'systemctl restart gated'
calls_while 'systemctl reload gated'
told root 0 'pkill --signal KILL --uid gated gated; while pgrep --uid gated gated; do sleep 0.05; done'
told agent 0 'gated status | head -n 1'
healthy
