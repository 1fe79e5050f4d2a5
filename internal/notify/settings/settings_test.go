package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/notify/message"
	"gated/internal/notify/settings"
	"gated/internal/test/must"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// full has every key.
const full = `socket: /run/gated/gated.sock
state: /var/lib/gated-notify
reach: ssh://ops@pve1
unreachable_after: 2m
backups: {dir: /var/backups/gated, older_than: 26h}
sinks:
  chat:
    webhook: {url_file: /s/slack, template: slack}
    roles: [operational]
    details: params
    escalate: {after: 10m, to: phone}
    digest: {more_than: 5, within: 1m}
    give_up: 12h
    timeout: 5s
  phone:
    ntfy: {url: "https://ntfy.example.com", topic: ops, token_file: /s/token}
    principals: [alice@example.com]
  mail:
    smtp: {server: "mail.example.com:587", from: gated@example.com, to: [ops@example.com], user: gated, password_file: /s/password}
    alarms: true
  hook:
    webhook: {url: "https://example.com/gated", secret_file: /s/secret}
    for: [uid:1000, uid:1000@node2, agent:builder]
  local:
    exec: {argv: [/usr/local/bin/wall, x]}
    alarms: true
`

var files = map[string]string{"/s/slack": "https://hooks.slack.example/services/T/B/abcdefgh\n", "/s/token": "tk_1\n", "/s/password": "pass word",
	"/s/secret": secret}

func read(path string, _ bool) ([]byte, error) {
	if text, ok := files[path]; ok {
		return []byte(text), nil
	}
	return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
}

func TestEveryKey(t *testing.T) {
	s := must.Get(settings.Parse("notify.yaml", []byte(full), read))(t)
	require.Equal(t, 2*time.Minute, s.Unreachable)
	require.Equal(t, "ssh://ops@pve1", s.Reach)
	require.Equal(t, &settings.Backups{Dir: "/var/backups/gated", Older: 26 * time.Hour}, s.Backups)
	require.Len(t, s.Sinks, 5)
	require.Equal(t, settings.Sink{Name: "chat", Roles: []op.Role{"operational"}, Details: message.ParamsDetails,
		Escalate: &settings.Escalate{After: 10 * time.Minute, To: "phone"}, Digest: settings.Digest{More: 5, Within: time.Minute},
		GiveUp: 12 * time.Hour, Timeout: 5 * time.Second,
		Webhook: &settings.Webhook{URL: "https://hooks.slack.example/services/T/B/abcdefgh", Template: "slack"}}, s.Sinks[0])
	require.Equal(t, "tk_1", s.Find("phone").Ntfy.Token)
	require.Equal(t, "starttls", s.Find("mail").SMTP.TLS)
	require.Equal(t, "pass word", s.Find("mail").SMTP.Password)
	require.Len(t, s.Find("hook").Webhook.Secret, 24)
	require.Equal(t, message.NoDetails, s.Find("hook").Details)
	require.Equal(t, map[string]bool{"phone": true}, s.Targets())
	require.Nil(t, s.Find("nobody"))
}

// Every mistake is refused with the place in the file.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":            {"    give_up: 12h", "    giveup: 12h", "notify.yaml:13"},
		"no sinks":               {full[strings.Index(full, "sinks:"):], "sinks: {}\n", "0 entries"},
		"two kinds":              {"    alarms: true\n  hook:", "    alarms: true\n    exec: {argv: [/bin/x]}\n  hook:", "has 2 of webhook"},
		"no kind":                {"    exec: {argv: [/usr/local/bin/wall, x]}\n", "", "has none of webhook"},
		"misspelt kind":          {"    exec: {argv", "    exce: {argv", `unknown key exce in local; is "exec" meant?`},
		"misspelt program":       {"exec: {argv:", "exec: {agrv:", `unknown key agrv in exec; is "argv" meant?`},
		"misspelt people":        {"    for: [uid:1000, uid:1000@node2, agent:builder]\n", "    fro: [uid:1000, uid:1000@node2, agent:builder]\n", `unknown key fro in hook; is "for" meant?`},
		"empty program":          {"exec: {argv: [/usr/local/bin/wall, x]}", "exec: {argv: []}", "absolute path of a program"},
		"gets nothing":           {"    for: [uid:1000, uid:1000@node2, agent:builder]\n", "", "gets nothing"},
		"no requester":           {"uid:1000,", "1000x,", "neither uid:NUMBER"},
		"no member":              {"uid:1000@node2,", "uid:1000@,", "neither uid:NUMBER"},
		"escalates to itself":    {"to: phone", "to: chat", "in a circle: chat, chat"},
		"escalates to no sink":   {"to: phone", "to: pager", "no such sink"},
		"escalates to nobody":    {"to: phone", "to: mail", "neither roles nor principals"},
		"relative path":          {"/var/lib/gated-notify", "lib", "not an absolute path"},
		"http to another host":   {"https://example.com/gated", "http://example.com/gated", "is not https"},
		"password in an address": {"https://example.com/gated", "https://u:p@example.com/gated", "has a user or a password"},
		"no address":             {"https://example.com/gated", "example.com", "is not a URL"},
		"inline secret address":  {"url_file: /s/slack", "url: 'https://x/y'", "is a secret"},
		"unknown template":       {"template: slack", "template: irc", "none of slack"},
		"telegram without chat":  {"template: slack", "template: telegram", "chat"},
		"matrix without token":   {"template: slack", "template: matrix, room: '!a:b'", "token_file"},
		"mail without port":      {"mail.example.com:587", "mail.example.com", "HOST:PORT"},
		"no tls":                 {"from: gated", "tls: none, from: gated", "for a server on this machine"},
		"user alone":             {", password_file: /s/password", "", "belong together"},
		"header in an address":   {"from: gated@example.com", `from: "gated@example.com\nBcc: x@y.zz"`, "smtp"},
		"topic with a slash":     {"topic: ops", "topic: a/b", "the topic is not"},
		"relative program":       {"/usr/local/bin/wall", "wall", "absolute path of a program"},
		"short give_up":          {"give_up: 12h", "give_up: 59s", "outside"},
		"odd reach":              {"ssh://ops@pve1", "'-oProxyCommand=x'", "opsign -H"},
		"odd name":               {"  local:", "  'a b':", "is not a name"},
		"missing secret":         {"/s/secret", "/s/none", "line 22 of the settings"},
		"bad secret":             {"/s/secret", "/s/token", "whsec_"},
		"no certificate":         {"secret_file: /s/secret", "ca_file: /s/secret", "no certificate"},
		"details of all":         {"details: params", "details: everything", "none of none, params, all"},
	} {
		text := strings.Replace(full, c.old, c.new, 1)
		require.NotEqual(t, full, text, name)
		_, err := settings.Parse("notify.yaml", []byte(text), read)
		require.Error(t, err, name)
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, refusal.As(err).Hint, "gated ops", name)
		for _, s := range files {
			require.NotContains(t, err.Error(), strings.TrimSpace(s), name)
		}
		require.NotContains(t, err.Error(), "u:p@", name)
	}
}

// A file that others can write, and a secret that others can read, are refused.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	key := write("secret", secret+"\n", 0o600)
	file := write("notify.yaml", "sinks: {a: {webhook: {url: 'https://x.example', secret_file: "+key+"}, alarms: true}}\n", 0o644)
	must.Get(settings.Load(file))(t)
	for _, mode := range []os.FileMode{0o604, 0o640, 0o644, 0o660, 0o602} {
		require.NoError(t, os.Chmod(key, mode))
		err := must.Err(settings.Load(file))(t)
		require.ErrorIs(t, err, refusal.NotAllowed, "%o", mode)
		require.NotContains(t, err.Error(), "whsec", mode)
	}
	require.NoError(t, os.Chmod(key, 0o400))
	must.Get(settings.Load(file))(t)
	for _, mode := range []os.FileMode{0o662, 0o666, 0o620} {
		require.NoError(t, os.Chmod(file, mode))
		must.Fail(settings.Load(file))(t, refusal.NotAllowed)
	}
	must.Fail(settings.Load(filepath.Join(dir, "none.yaml")))(t, refusal.UnknownTarget)
	large := write("large.yaml", strings.Repeat("#", 1<<20+1), 0o600)
	must.Fail(settings.Load(large))(t, refusal.Oversized)
}

func TestDefaultPath(t *testing.T) {
	home := t.TempDir()
	own := filepath.Join(home, ".config", "gated", "notify.yaml")
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	require.Equal(t, own, settings.DefaultPath(env))
	require.Equal(t, "/etc/gated/notify.yaml", settings.DefaultPath(func(string) string { return "" }))
	require.Equal(t, "/var/lib/gated-notify", settings.DefaultState(func(name string) string {
		return map[string]string{"STATE_DIRECTORY": "/var/lib/gated-notify", "HOME": home}[name]
	}))
	require.Equal(t, filepath.Join(home, ".local/state/gated-notify"), settings.DefaultState(env))
	require.Empty(t, settings.DefaultState(func(string) string { return "relative" }))
}

func FuzzSettings(f *testing.F) {
	f.Add(full)
	f.Add("sinks: {a: {exec: {argv: [/x]}, alarms: true}}")
	f.Add(secret)
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := settings.WebhookSecret(text); err == nil {
			require.GreaterOrEqual(t, len(key), 24)
		}
		s, err := settings.Parse("notify.yaml", []byte(text), read)
		if err != nil {
			var r *refusal.Refusal
			require.True(t, errors.As(err, &r))
			return
		}
		for _, one := range s.Sinks {
			require.NoError(t, op.CheckName(one.Name))
			require.True(t, len(one.Roles)+len(one.Principals)+len(one.For) > 0 || one.Alarms)
			if w := one.Webhook; w != nil {
				require.Regexp(t, `^https?://`, w.URL)
			}
		}
	})
}
