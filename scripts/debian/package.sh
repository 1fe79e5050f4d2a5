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
people

say "Before there is a gate, whoever asks for it hears how to make one"
login root 0 'cd /tmp/old && apt install ./gated.deb'
told agent 4 'gated status'
printed 'only root can see whether one was made: sudo gated status'
told root 4 'gated status'
printed 'sudo gated setup'
! systemctl is-active --quiet gated.service gated.socket || fail "a unit runs"
healthy

say "What a set-up did, its lines undo"
login root 0 'gated setup --operator ~alice/.ssh/id_ed25519.pub:alice@example.com --who-may-ask alice --yes'
sed -n '/^to undo it/,/^next:/s/^  //p' "$dir/out" >"$dir/undo"
[ "$(wc -l <"$dir/undo")" -ge 3 ] || fail "it says no lines to undo it"
told root 0 "$(cat "$dir/undo")"
[ ! -e /var/lib/gated ] || fail "the gate is still there"
! id -nG alice | grep -qw gated || fail "alice is still in the group"
! systemctl is-active --quiet gated.service gated.socket || fail "a unit still runs"
healthy
login root 0 'apt purge --yes gated'

say "Two commands of README by alice, who has sudo, and her first step is approved"
echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice
install -D -o alice -m 0644 -t ~alice/dist/packages "${debs[0]}"
pages=/src
terminal alice alice
block README.md Install 1 >/dev/null
[ "$(wc -l <"$dir/block")" = 2 ] || fail "README installs with more than two commands"
follow alice
screen alice | grep -E '^(found|to do|done|To undo|  (key|systemctl|gpasswd|rm)|May )' | sed 's/^/    /'
tmux kill-server
healthy
verified /usr/lib/systemd/system/gated*
terminal alice alice
block README.md Install 2 >/dev/null
follow alice
screen alice | grep -q '^destroyed guest/web' || { screen alice >&2; fail "README's first step was not done"; }
tmux kill-server
pages=/usr/share/doc/gated
told root 0 'gated setup --who-may-ask agent --yes'

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
told agent 0 'gated submit guest.create shop --wait'
told agent 3 "gated submit guest.destroy shop --reason 'the project is over'"
mailed alice '^type: opsign approve j4.1$'
told alice 0 'opsign show j4.1 | head -n 1'
told alice 0 'opsign approve j4.1 --key .ssh/id_ed25519 --yes | tail -n 1'
printed 'destroyed guest/shop'
mailed alice '^Subject: demo: j4.1 .* was done$'

say "Root looks at the notifier, and at a sink that takes nothing, as the guide to messages says"
told root 0 "$(block docs/guides/notify.md 'As a service' 3)"
printed '^alice  *20'
systemctl stop opensmtpd
login agent 0 'gated submit guest.create left --wait'
login agent 3 'gated submit guest.destroy left'
look=$(block docs/guides/notify.md 'As a service' 3)
for _ in $(seq 200); do
	su - root -c "$look" >"$dir/out"
	! grep -q 'connection refused' "$dir/out" || break
	sleep 0.05
done
sed 's/^/    /' "$dir/out"
printed '^alice .* 1 .*connection refused'
systemctl start opensmtpd
mailed alice '^type: opsign approve j6.1$'
told agent 0 'gated cancel j6'

say "The journal has each decision, with its fields"
# journald takes a moment.
for _ in $(seq 200); do
	journalctl --unit gated --output json --no-pager GATED_STEP=j4.1 >"$dir/out"
	! grep -q '"GATED_KIND":"succeeded"' "$dir/out" || break
	sleep 0.05
done
jq -r '[.GATED_KIND, .GATED_JOB, .GATED_REQUEST, .GATED_OP, .GATED_TARGET, .GATED_REQUESTER // .GATED_BY, .GATED_SIGNERS, .PRIORITY] | map(. // "-") | join(" ")' \
	"$dir/out" | tee "$dir/decisions" | sed 's/^/    /'
cp "$dir/decisions" "$dir/out"
uid=$(id -u agent)
printed "^requested j4 j4.1 guest.destroy guest/shop uid:$uid - 6$"
printed '^approved j4 j4.1 guest.destroy guest/shop .*alice@example.com.* 6$'
printed '^dispatched j4 j4.1 guest.destroy guest/shop '
printed '^succeeded j4 j4.1 guest.destroy guest/shop '

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

say "systemd ends a daemon that hangs, and starts it again"
install -d /run/systemd/system/gated.service.d
printf '[Service]\nWatchdogSec=2s\nTimeoutAbortSec=2s\n' >/run/systemd/system/gated.service.d/quick.conf
systemctl daemon-reload
systemctl restart gated
pid=$(systemctl show --property MainPID --value gated)
told root 0 "kill -STOP $pid"
for _ in $(seq 400); do
	[ -e "/proc/$pid" ] || break
	sleep 0.05
done
[ ! -e "/proc/$pid" ] || fail "the daemon hangs, and systemd does not end it"
told agent 0 'gated status | head -n 1'
silent 0 journalctl --unit gated --no-pager
printed 'Watchdog timeout'
rm /run/systemd/system/gated.service.d/quick.conf
systemctl daemon-reload
systemctl restart gated
healthy
