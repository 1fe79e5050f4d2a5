#!/usr/bin/env bash
# A console before the gate of package.sh, by the guide to it: from the settings to the first approval, over TLS, under
# systemd. curl is the browser here, with a passkey that openssl signs for; internal/test/browser has a real one.
set -euo pipefail
name=demo-debian
dir=$(mktemp -d /root/console.XXXXXX)
pages=/usr/share/doc/gated
. /src/scripts/debian/typed.sh
. /src/scripts/debian/hosts.sh
guide=docs/guides/phone.md
team="A console for a team"
host=console.example.com

# get PATH and post PATH JSON are the browser. It has a session once it signed in.
asks=(curl --silent --show-error --resolve "$host:443:127.0.0.1" --cacert "$dir/console.crt" --cookie "$dir/cookies" --cookie-jar "$dir/cookies"
	--output "$dir/out" --write-out '%{http_code}')
get() { answered "$("${asks[@]}" "https://$host$1")" "$1"; }
post() {
	answered "$("${asks[@]}" --header "Origin: https://$host" --header 'Sec-Fetch-Site: same-origin' --header 'Content-Type: application/json' \
		--data "$2" "https://$host$1")" "$1"
}
answered() { [ "$1" = 200 ] || { cat "$dir/out" >&2; journalctl --unit gated-console --no-pager -n 20 >&2; fail "$2 answered $1"; }; }

text64() { base64 -w 0 | tr '+/' '-_' | tr -d '='; }

# signed signs the ceremony that was answered, as an authenticator does after a touch (WebAuthn Level 3, section 6.3.3), and
# prints the members of the next post that are of it.
signed() {
	local client
	client=$(jq -c --arg origin "https://$host" '{type: "webauthn.get", challenge, origin: $origin, crossOrigin: false}' "$dir/out")
	{ printf '%s' "$host" | openssl dgst -sha256 -binary; printf '\005\0\0\0\007'; } >"$dir/data"
	{ cat "$dir/data"; printf '%s' "$client" | openssl dgst -sha256 -binary; } | openssl dgst -sha256 -sign "$dir/passkey" >"$dir/signature"
	jq -c --arg client "$(printf '%s' "$client" | text64)" --arg data "$(text64 <"$dir/data")" --arg signature "$(text64 <"$dir/signature")" \
		'{message, assertion: {id: "aWQ", clientDataJSON: $client, authenticatorData: $data, signature: $signature, userHandle: ""}}' "$dir/out"
}

# approve ID approves the request to whose page the link of a message leads.
approve() {
	local at form
	login agent 0 'gated status --json'
	at=$("${asks[@]}" --write-out '%{redirect_url}' "https://$host/g/$(field gate)/r/$1")
	at=${at#"https://$host"}
	get "$at"
	form=$(jq -cn --arg payload "$(sed -n 's/.* data-payload="\([0-9a-f]*\)".*/\1/p' "$dir/out")" \
		--arg seen "$(sed -n 's/.* data-seen="\([0-9a-f]*\)".*/\1/p' "$dir/out")" '{role: "operational", payload_sha256: $payload, seen: $seen}')
	post "$at/challenge" "$(jq -c '. + {decision: "approve", reason: ""}' <<<"$form")"
	post "$at/approve" "$(signed | jq -c --argjson form "$form" '. + $form')"
	note "a passkey approved $1 at https://$host$at"
}

say "A console for a team: the package brought its user and its unit, which is idle"
told root 0 "id gated-console; systemctl is-enabled gated-console || true; systemctl is-active gated-console || true"
printed '(gated)'
printed '^disabled$'
printed '^inactive$'

say "Its settings, typed by root as the guide has them"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=$host" -addext "subjectAltName=DNS:$host" \
	-keyout /root/console.key -out /root/console.crt 2>"$dir/said" || { cat "$dir/said" >&2; fail "openssl makes no certificate"; }
cp /root/console.crt "$dir/console.crt"
block "$guide" "$team" 1 | tee -a /var/lib/gated/gated.yaml | sed 's/^/    /'
told root 0 'gated reload'
block "$guide" "$team" 2 >/dev/null
terminal console root
follow console
tmux kill-server
healthy
block "$guide" "$team" 3 >"$dir/known"
told root 0 "$(grep -v ssh:// "$dir/known")" # this Debian has no other host
printed 'is met first at unix:/run/gated/gated.sock'

say "It answers at :443, as its own user, who reads the key and nothing of the gate"
get /sign-in
printed 'Sign in with a passkey'
pid=$(systemctl show --property MainPID --value gated-console)
told root 0 "ps -o user=,args= -p $pid; stat -c '%U %G %a %n' /etc/gated/console.key"
printed ' /usr/bin/gated console --origin https://console.example.com --listen :443 '
printed '^root gated-console 640 '
[ "$(stat -c %U "/proc/$pid")" = gated-console ] || fail "the console runs as $(stat -c %U "/proc/$pid")"
login root 2 'runuser -u gated-console -- ls /var/lib/gated'
printed 'Permission denied'
verified /usr/lib/systemd/system/gated-console.service

say "A passkey is made, and the gate lists it"
openssl ecparam -name prime256v1 -genkey -noout -out "$dir/passkey"
post /enrol/challenge '{}'
key=$(openssl ec -in "$dir/passkey" -pubout -outform DER 2>/dev/null | text64)
post /enrol "$(signed | jq -c --arg key "$key" '. + {key: $key, principal: "alice@example.com", role: "operational"}')"
command=$(jq -r .command "$dir/out")
want=$(block "$guide" "$team" 4 | sed -e ':a;N;$!ba;s/ \\\n */ /')
[[ $command == "${want%%AAAA*}"AAAA*"${want#*AAAA...}" ]] || fail "the page says '$command', and the guide '$want'"
told agent 3 "$command"
id=$(sed -n 's/^\(j[0-9]*\.1\) .*/\1/p' "$dir/out" | head -n 1)
for _ in $(seq 200); do # until the console has heard of the request, it does not know the passkey
	post /sign-in/challenge '{}'
	[ "$("${asks[@]}" --header 'Content-Type: application/json' --header 'Sec-Fetch-Site: same-origin' --data "$(signed | jq -c '. + {to: "/"}')" \
		"https://$host/sign-in")" != 200 ] || break
	sleep 0.05
done
approve "$id"
grep -o 'opsign approve j1.1' "$pages/$guide" | sed "s/j1.1/$id/" | tee "$dir/block" >/dev/null
terminal alice alice
follow alice
tmux kill-server
told alice 0 'gated trust show 2>/dev/null | grep sk-ecdsa'

say "The passkey approves a step"
login agent 3 "gated submit guest.create old --wait; gated submit guest.destroy old --reason 'no longer needed'"
id=$(sed -n 's/^\(j[0-9]*\.1\) guest.destroy.*/\1/p' "$dir/out" | head -n 1)
approve "$id"
told agent 0 "gated wait ${id%.1}"
printed 'guest.destroy guest/old: succeeded'
healthy
