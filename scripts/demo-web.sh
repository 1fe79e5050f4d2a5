#!/usr/bin/env bash
# The pages of opsign web in one run: a gate with a guest, a request that waits, and an operator who reads it in a browser and
# says yes in the terminal. Every step checks that what it says is so. With a terminal it stops for a look at the pages;
# without one, curl is the browser. Run it with: make demo-web
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
for program in ssh-keygen curl tmux; do
	command -v "$program" >/dev/null || { echo "demo-web: $program is needed (Debian: openssh-client, curl, tmux)" >&2; exit 1; }
done
dir=$(mktemp -d "${TMPDIR:-/tmp}/gated-web.XXXXXX")
name=demo-web
. "$root/scripts/story.sh"

terminal() { tmux -S "$dir/tmux" "$@"; }
ended() { # what the story started
	terminal kill-server 2>/dev/null || true
	for process in $(pgrep -f "$dir"); do
		[ "$process" = $$ ] || kill -KILL "$process" 2>/dev/null
	done
}
# shown TEXT waits until the terminal of opsign web has the text.
shown() {
	for _ in $(seq 150); do
		terminal capture-pane -p -J -t web >"$dir/pane" && grep -q -- "$1" "$dir/pane" && return
		sleep 0.1
	done
	cat "$dir/pane" >&2
	fail "the terminal of opsign web does not show '$1'"
}
# page PATH is what a browser gets, in $dir/out; the exit code of curl says whether it got it.
page() {
	curl --silent --show-error --fail --cookie "$dir/jar" --cookie-jar "$dir/jar" --output "$dir/out" "$@" || fail "no page: $*"
}

say "1. A gate with a guest, and alice who is its operator"
ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f "$dir/alice"
brief 4 0 gated init --state "$state" --host demo --operator "$dir/alice.pub"
[ "$(id -u)" != 0 ] || printf 'local:\n  guest_uids: 1900000000-1900000009\n' >>"$state/gated.yaml"
start
expect 0 gated submit guest.create web --wait
expect 3 gated submit guest.destroy web --reason 'the old one <script>alert(1)</script>'
silent 0 opsign list --json
request=$(field id)

say "2. Alice starts opsign web, which prints an address of this machine"
terminal -f /dev/null new-session -d -s web -x 160 -y 50 "opsign web --port 0 --key '$dir/alice'; sleep 60"
shown 'http://localhost:[0-9]*/launch#'
address=$(grep -o 'http://localhost:[0-9]*/launch#[A-Za-z0-9_-]*' "$dir/pane" | head -n 1)
at=${address%/launch*}
note "$at/launch#..."

say "3. The part behind the # opens one session, once"
page -H "Origin: $at" --data-urlencode "token=${address##*#}" "$at/launch"
if curl --silent --fail -H "Origin: $at" --data-urlencode "token=${address##*#}" "$at/launch" >/dev/null; then fail "the address opened two sessions"; fi
[ "$(curl --silent --output /dev/null --write-out '%{http_code}' "$at/")" = 401 ] || fail "a browser without a session reads the pages"
[ "$(curl --silent --output /dev/null --write-out '%{http_code}' -H 'Host: evil.example' "$at/")" = 421 ] || fail "another Host is answered"
note "a second use, a browser without a session, and another Host are refused"

say "4. The page shows what waits, and each word of the requester as a word"
page "$at/"
printed 'guest/web'
path=$(grep -o "/g/[^\"/]*/r/$request" "$dir/out" | head -n 1)
[ -n "$path" ] || fail "the first page has no link to $request"
page "$at$path"
printed 'DESTROY guest/web on demo'
printed '&lt;script&gt;alert(1)&lt;/script&gt;'
if grep -q '<script>alert' "$dir/out"; then fail "a requester's words are markup"; fi
note "$at$path"

if [ -t 0 ] && [ -z "${CI-}" ]; then
	say "Look yourself"
	echo "  opsign web prints a new address when a browser comes without a session. Open $at/ in your browser; then see its"
	echo "  terminal:  tmux -S $dir/tmux attach -t web   (Ctrl-b d leaves it)"
	read -r -p "  Press Enter here to go on. "
fi

say "5. A press of the button asks in the terminal, where alice types yes"
payload=$(opsign show "$request" --payload | sha256sum | cut -d ' ' -f 1)
curl --silent --show-error --cookie "$dir/jar" --cookie-jar "$dir/jar" --output "$dir/answer" -H "Origin: $at" \
	--data "payload_sha256=$payload&role=operational" "$at$path/terminal/approve" &
asked=$!
shown 'Type yes'
sed -n '/DESTROY/,$p' "$dir/pane" | sed '/^$/d; s/^/    /'
[ -d "$state/guests/web" ] || fail "web is gone without a yes"
terminal send-keys -t web yes Enter
wait "$asked" || fail "the page got no answer"
silent 0 gated wait "${request%.*}"
[ ! -e "$state/guests/web" ] || fail "web is still there"
note "web is destroyed, and its trash keeps it"

say "6. OpenSSH verifies what was signed"
silent 0 opsign show "$request" --json
sed -n 's/.*"signature":"\([^"]*\)".*/\1/p' "$dir/out" | sed 's/\\n/\n/g' >"$dir/op.sig"
opsign show "$request" --payload >"$dir/op.json"
ssh-keygen -Y verify -f "$state/allowed_signers" -I alice@example.com -n operational@gated -s "$dir/op.sig" \
	<"$dir/op.json" | sed 's/^/    /' || fail "ssh-keygen does not accept the signature"
expect 0 gated audit verify --state "$state"
terminal kill-server
stop
say "Done. With passkeys, and for a team: gated docs phone"
