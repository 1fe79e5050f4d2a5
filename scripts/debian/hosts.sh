# What the stories of the package ask of the booted Debian: people, a mail server, a Prometheus.

people() {
	local user
	for user in alice agent; do useradd --create-home --shell /bin/bash "$user"; done
	login alice 0 "mkdir -m 0700 .ssh; ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f .ssh/id_ed25519"
}

# healthy: no unit of this Debian failed.
healthy() {
	[ "$(systemctl is-system-running)" = running ] || { systemctl --no-pager --failed >&2; journalctl -n 30 --no-pager >&2; fail "a unit failed"; }
}

verified() {
	silent 0 systemd-analyze verify "$@"
	[ ! -s "$dir/out" ] || { cat "$dir/out" >&2; fail "systemd-analyze verify has something to say of the units"; }
	note "systemd-analyze verify has nothing to say of ${*##*/}"
}

# calls_while runs a command of root while agents call without a pause; no call may fail.
calls_while() {
	local calls=/tmp/calls n caller
	rm -f "$calls" /tmp/over
	# shellcheck disable=SC2016 # the login's shell expands it
	su - agent -c 'while [ ! -e /tmp/over ]; do gated guests >/dev/null || exit 1; echo >>/tmp/calls; done' 2>"$dir/failed" &
	caller=$!
	for _ in $(seq 200); do [ ! -s "$calls" ] || break; sleep 0.05; done
	told root 0 "$1"
	n=$(wc -l <"$calls")
	for _ in $(seq 200); do [ "$(wc -l <"$calls")" -le "$n" ] || break; sleep 0.05; done
	touch /tmp/over
	wait "$caller" || { cat "$dir/failed" >&2; fail "a call failed during: $1"; }
	[ "$(wc -l <"$calls")" -gt "$n" ] || fail "no call came through after: $1"
	note "$(wc -l <"$calls") calls, none failed"
}

# mails starts a mail server that delivers to the users of this Debian, and the notifier.
mails() {
	cat >/etc/smtpd.conf <<-'END'
		listen on lo port 25
		action "mailbox" mbox
		match from local for local action "mailbox"
	END
	systemctl start opensmtpd
	install -m 0644 /dev/stdin /etc/gated/notify.yaml <<-'END'
		sinks:
		  alice:
		    smtp: {server: "127.0.0.1:25", tls: none, from: gated@localhost, to: [alice@localhost]}
		    roles: [operational]
	END
	told root 0 'gated notify check /etc/gated/notify.yaml && systemctl enable --now gated-notify'
	healthy
}

# mailed waits for a mail to a user with a text.
mailed() {
	for _ in $(seq 400); do
		! grep -qs -- "$2" "/var/mail/$1" || { note "mail to $1: $2"; return; }
		sleep 0.05
	done
	cat "/var/mail/$1" >&2
	journalctl --no-pager -n 30 >&2
	fail "no mail to $1 says '$2'"
}

# scraped: a unit writes the gate's metrics for node_exporter, which Prometheus reads. It prints what Prometheus has.
scraped() {
	local query='{__name__=~"gated_(up|requests_pending|decisions_total|check_ok|last_backup_timestamp_seconds)"}'
	systemctl start prometheus-node-exporter
	cat >/etc/prometheus/prometheus.yml <<-'END'
		rule_files: [/src/contrib/prometheus/gated.rules.yml]
		scrape_configs:
		  - job_name: node
		    scrape_interval: 1s
		    static_configs: [{targets: ["localhost:9100"]}]
	END
	silent 0 promtool check config /etc/prometheus/prometheus.yml
	systemctl start prometheus
	told root 0 'systemctl enable --now gated-metrics.timer && systemctl start gated-metrics.service'
	for _ in $(seq 400); do
		curl -sG http://localhost:9090/api/v1/query --data-urlencode "query=$query" >"$dir/out" || true
		[ "$(jq '.data.result | length' "$dir/out" 2>/dev/null || echo 0)" -lt 5 ] || break
		sleep 0.05
	done
	jq -r '.data.result[] | [.metric.__name__, .metric.kind, .metric.code, .metric.check, .value[1]] | map(select(.)) | join(" ")' \
		"$dir/out" | sort -u >"$dir/metrics"
	cp "$dir/metrics" "$dir/out"
	sed 's/^/    /' "$dir/metrics"
	printed '^gated_up 1$'
	silent 0 journalctl --no-pager --unit prometheus-node-exporter
	! grep 'error gathering metrics' "$dir/out" || fail "node_exporter cannot put the gate's metrics beside its own"
	cp "$dir/metrics" "$dir/out"
	curl -s http://localhost:9090/api/v1/rules >"$dir/rules"
	[ "$(jq '[.data.groups[].rules[] | select(.health == "err")] | length' "$dir/rules")" = 0 ] || fail "Prometheus cannot evaluate a rule"
	note "$(jq '[.data.groups[].rules[]] | length' "$dir/rules") alert rules are loaded"
}

# killed TEXT COMMAND... kills a command and all that it started as soon as it printed a text.
killed() {
	local text=$1
	shift
	note "$* is killed after '$text'"
	setsid "$@" >"$dir/killed" 2>&1 &
	local group=$!
	for _ in $(seq 4000); do
		! grep -q -- "$text" "$dir/killed" || break
		kill -0 "$group" 2>/dev/null || break
		sleep 0.005
	done
	grep -q -- "$text" "$dir/killed" || { cat "$dir/killed" >&2; fail "it did not print '$text'"; }
	kill -KILL -- "-$group" 2>/dev/null || fail "it was over before the kill"
	wait "$group" 2>/dev/null || true
}
