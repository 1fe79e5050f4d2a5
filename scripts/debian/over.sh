#!/usr/bin/env bash
# A package over the hand-made gate of by-hand.sh: it leaves that in force, and says how to move to the package; then root
# does so, and the gate stays.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/over.XXXXXX)
pages=/src
. /src/scripts/debian/typed.sh
. /src/scripts/debian/hosts.sh

say "A package over a gate that was made by hand"
login agent 0 'gated status --json'
was=$(field gate)
echo '# changed by the administrator' >>/etc/gated/client.yaml
cp "$(find /packages -name '*.deb' | sort -V | head -n 1)" /tmp/gated.deb
told root 0 'apt install -o Dpkg::Options::=--force-confold /tmp/gated.deb'
grep -q '^# changed by the administrator$' /etc/gated/client.yaml || fail "the administrator's client.yaml was replaced"
printed 'units in /etc/systemd/system are in force'
told root 0 'readlink -f /proc/$(systemctl show -P MainPID gated)/exe'
printed '^/usr/local/bin/gated$'
login agent 0 'gated status --json'
[ "$(field gate)" = "$was" ] || fail "the gate is another one"

say "Then root moves to the package"
terminal root root
block contrib/systemd/README.md 'An older gate that was made by hand' 1 >/dev/null
follow root
tmux kill-server
told root 0 'readlink -f /proc/$(systemctl show -P MainPID gated)/exe'
printed '^/usr/bin/gated$'
login agent 0 'gated status --json'
[ "$(field gate)" = "$was" ] || fail "the gate is another one"
healthy
