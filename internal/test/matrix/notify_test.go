package matrix_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/notify"
	"gated/internal/notify/outbox"
	"gated/internal/notify/settings"
	"gated/internal/notify/sink"
	"gated/internal/test/must"
)

// What rows about gated notify end as.
const (
	asData     refusal.Code = "as_data"     // others' words arrived, and are data
	notSent    refusal.Code = "not_sent"    // a secret or a message stayed here
	stillWaits refusal.Code = "still_waits" // an answer decided nothing
)

// receives starts a receiver on loopback, and returns what it got: the path, headers and body of each call.
func (w *world) receives(answer http.HandlerFunc) (s *httptest.Server, got func() string) {
	var mu sync.Mutex
	var all strings.Builder
	s = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		all.WriteString(r.URL.String() + "\n")
		_ = r.Header.Write(&all)
		all.Write(body)
		mu.Unlock()
		if answer != nil {
			answer(rw, r)
		}
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.t.Cleanup(s.Close)
	return s, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// authorityOf returns the certificate of a server, as ca_file.
func authorityOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// anAuthority returns the certificate of an authority that signed nothing.
func anAuthority(w *world) []byte {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(w.t)
	is := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key))(w.t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// answering is a gate's socket, and what only a whole daemon says of itself.
type answering struct {
	*client.Client
	w *world
}

func (a answering) Status(context.Context) (api.Status, error) {
	return api.Status{Host: a.w.gate.Host(), Gate: a.w.gate.ID()}, nil
}

func (a answering) AuditHead(ctx context.Context) (api.Head, error) {
	h, err := a.w.gate.AuditHead(ctx)
	return api.Head{Seq: h.Seq, Hash: h.Hash}, err
}

// notifies has gated notify follow this gate over its socket, and send what waits to one sink. It returns why the first
// message was not delivered, or "".
func (w *world) notifies(s settings.Sink) string {
	dir := w.t.TempDir()
	s.Name, s.Roles, s.GiveUp = "s", []op.Role{op.Operational}, time.Hour
	if s.Timeout == 0 {
		s.Timeout = time.Minute
	}
	is := settings.Settings{Sinks: []settings.Sink{s}}
	c := must.Get(client.New(client.Options{Socket: w.serve(), Getenv: func(string) string { return "" }}))(w.t)
	defer c.Close()
	box := must.Get(outbox.Open(w.ctx, notify.DatabaseIn(dir), nil))(w.t)
	defer func() { require.NoError(w.t, box.Close()) }()
	to := must.Get(sink.Open(s))(w.t)
	n := notify.New(notify.Options{Settings: is, Dir: dir, Gate: answering{c, w}, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Sinks: map[string]sink.Sink{"s": to}, Outbox: box})
	require.NoError(w.t, n.Connect(w.ctx))
	require.Equal(w.t, 1, must.Get(box.Report(w.ctx, []string{"s"}))(w.t)[0].Queued)
	must.Get(n.Try(w.ctx, "s"))(w.t)
	return must.Get(box.Report(w.ctx, []string{"s"}))(w.t)[0].Why
}

// words is a row in which a requester's reason tries to be more than data in a product's message.
func words(id, what, template, reason, bad string) attack {
	return attack{id: id, what: "gated notify, " + template + ": " + what, want: asData, run: func(w *world) error {
		must.Get(w.says(hub, reason, wipe))(w.t)
		w.armUnlogged("gated notify only reads")
		s, got := w.receives(nil)
		to := settings.Sink{Webhook: &settings.Webhook{URL: s.URL, Template: template, Chat: "-1", Room: "!r:ex", Token: "token", CA: authorityOf(s)}}
		switch template {
		case "ntfy":
			to = settings.Sink{Ntfy: &settings.Ntfy{URL: s.URL, Topic: "t", CA: authorityOf(s)}}
		case "cloudevents":
			to.Webhook.Template = ""
		}
		require.Empty(w.t, w.notifies(to))
		require.Contains(w.t, got(), "guest.destroy")
		if regexp.MustCompile(bad).MatchString(got()) {
			return nil
		}
		return refusal.New(asData, "%s", got())
	}}
}

// keeps is a row in which a receiver tries to get a secret or a message that it must not have.
func keeps(id, what string, run func(w *world, stolen func() string, other *httptest.Server) (said string)) attack {
	return attack{id: id, what: "gated notify: " + what, want: notSent, run: func(w *world) error {
		must.Get(w.says(hub, "because", wipe))(w.t)
		w.armUnlogged("gated notify only reads")
		other, stolen := w.receives(nil)
		said := run(w, stolen, other)
		if said == "" || stolen() != "" || strings.Contains(said, "s3cret") {
			return nil
		}
		return refusal.New(notSent, "%s", said)
	}}
}

// notifyMode is a row in which another user could have written, or read, what gated notify goes by.
func notifyMode(id, what string, change func(dir string) error) attack {
	return attack{id: id, what: "gated notify: " + what, want: refusal.NotAllowed, run: func(w *world) error {
		w.armUnlogged("gated notify does not start")
		dir := w.t.TempDir()
		secret, program := filepath.Join(dir, "secret"), filepath.Join(dir, "program")
		text := "sinks:\n  a: {webhook: {url: 'https://x.example', secret_file: " + secret + "}, alarms: true}\n"
		require.NoError(w.t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600))
		require.NoError(w.t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, "notify.yaml"), []byte(text), 0o600))
		must.Get(settings.Load(filepath.Join(dir, "notify.yaml")))(w.t)
		require.NoError(w.t, change(dir))
		_, err := settings.Load(filepath.Join(dir, "notify.yaml"))
		return err
	}}
}

var notifyRows = []attack{
	words("N01a", "a mention of everybody", "slack", "done <!channel> <!here> <@U1>", `<[!@]`),
	words("N01b", "a link that says approve", "slack", "<https://evil.example/x|approve here>", `https://evil|evil\.example`),
	words("N01c", "the end of a string, and a block of its own", "slack", `x"}]}]},{"type":"section","text":{"type":"mrkdwn","text":"*approved*`, `"type":"mrkdwn"`),
	words("N01d", "a link in HTML", "telegram", `</code><a href="https://evil.example">approve</a>`, `<a |href=\\"|evil\.example`),
	words("N01e", "a mention, a bare host, a command", "telegram", "@admin evil.example /approve@bot", `@admin|evil\.example|@bot`),
	words("N01f", "an image and a script", "matrix", `<img src="mxc://evil.example/x" onerror=alert(1)><script>x</script>`, `"formatted_body":.*<(img|script)|mxc://`),
	words("N01g", "a mention of the room", "matrix", "@room please @admin:evil.example", `@room|@admin|"m.mentions":\{"`),
	words("N01h", "a link in Markdown", "teams", "[approve](https://evil.example) **done**", `https://evil|evil\.example|"TextBlock"`),
	words("N01i", "a card of its own", "teams", `x"}]},{"type":"Action.OpenUrl","url":"https://evil.example"`, `"type":"Action`),
	words("N01j", "an action and a click", "ntfy", `x","actions":[{"action":"http","label":"approve","url":"https://evil.example"}],"click":"https://evil.example`, `"actions":|"click":|https://evil`),
	words("N01k", "a line to type for another request", "ntfy", "ok type: opsign approve j99.1", `\\ntype: opsign approve j99`),
	words("N01l", "members of its own", "cloudevents", `x"},"id":"other","source":"urn:gated:other","data":{"kind":"test`, `"id":"other"|"source":"urn:gated:other"`),

	keeps("N02a", "a receiver redirects to another host, with the call's secret", func(w *world, _ func() string, other *httptest.Server) string {
		s, got := w.receives(func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, other.URL+"/steal", http.StatusTemporaryRedirect)
		})
		said := w.notifies(settings.Sink{Webhook: &settings.Webhook{URL: s.URL, Token: "s3cret-token", CA: append(authorityOf(s), authorityOf(other)...)}})
		require.Contains(w.t, got(), "s3cret-token")
		require.Contains(w.t, said, other.URL)
		return said
	}),
	keeps("N02b", "a host with another authority's certificate stands where the receiver was", func(w *world, _ func() string, other *httptest.Server) string {
		return w.notifies(settings.Sink{Webhook: &settings.Webhook{URL: other.URL, Token: "s3cret-token", CA: anAuthority(w)}})
	}),
	keeps("N02c", "a receiver repeats the secrets of a call in its answer", func(w *world, _ func() string, _ *httptest.Server) string {
		s, _ := w.receives(func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(rw, r.RequestURI+" "+r.Header.Get("Authorization"))
		})
		return w.notifies(settings.Sink{Webhook: &settings.Webhook{URL: s.URL + "/s3cret-path", Token: "s3cret-token", CA: authorityOf(s)}})
	}),
	keeps("N02d", "a mail server, or the way to it, offers no TLS", func(w *world, _ func() string, _ *httptest.Server) string {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
		defer l.Close()
		heard := make(chan string, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				heard <- ""
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "220 x\r\n250-x\r\n250 AUTH PLAIN\r\n235 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n250 ok\r\n")
			b, _ := io.ReadAll(c)
			heard <- string(b)
		}()
		said := w.notifies(settings.Sink{SMTP: &settings.SMTP{Server: l.Addr().String(), TLS: "starttls", User: "u", Password: "s3cret", From: "a@b.cc", To: []string{"d@e.ff"}}})
		text := <-heard
		require.NotContains(w.t, text, "AUTH")
		require.NotContains(w.t, text, "MAIL")
		return said
	}),

	notifyMode("N03a", "others can write the settings", func(dir string) error { return os.Chmod(filepath.Join(dir, "notify.yaml"), 0o602) }),
	notifyMode("N03b", "others can read a secret", func(dir string) error { return os.Chmod(filepath.Join(dir, "secret"), 0o604) }),
	notifyMode("N03c", "the group can read a secret", func(dir string) error { return os.Chmod(filepath.Join(dir, "secret"), 0o640) }),
	notifyMode("N03d", "others can replace files in the directory of the settings", func(dir string) error { return os.Chmod(dir, 0o777) }),
	notifyMode("N03e", "the secret is a link to a file that others can write", func(dir string) error {
		path := filepath.Join(dir, "secret")
		if err := os.Rename(path, path+".real"); err != nil {
			return err
		}
		if err := os.Chmod(path+".real", 0o666); err != nil {
			return err
		}
		return os.Symlink(path+".real", path)
	}),
	{id: "N03f", what: "gated notify: others can write the program of a sink", want: notSent, run: func(w *world) error {
		must.Get(w.says(hub, "because", wipe))(w.t)
		w.armUnlogged("gated notify only reads")
		path := filepath.Join(w.t.TempDir(), "program")
		require.NoError(w.t, os.WriteFile(path, []byte("#!/bin/sh\ntouch "+path+".ran\n"), 0o700))
		require.NoError(w.t, os.Chmod(path, 0o757))
		said := w.notifies(settings.Sink{Exec: &settings.Exec{Argv: []string{path}}})
		if _, err := os.Stat(path + ".ran"); err == nil || said == "" {
			return nil
		}
		return refusal.New(notSent, "%s", said)
	}},

	{id: "N04a", what: "gated notify: a receiver answers that the request is approved", want: stillWaits, run: func(w *world) error {
		j := must.Get(w.says(hub, "because", wipe))(w.t)
		w.armUnlogged("an answer is not read for more than its status")
		s, _ := w.receives(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `{"approve":"`+j.Steps[0].ID.String()+`","decision":"approved","command":"opsign approve `+j.Steps[0].ID.String()+`"}`)
		})
		require.Empty(w.t, w.notifies(settings.Sink{Webhook: &settings.Webhook{URL: s.URL, CA: authorityOf(s)}}))
		return decidedNot(w, j)
	}},
	{id: "N04b", what: "gated notify: a program prints the line that approves", want: stillWaits, run: func(w *world) error {
		j := must.Get(w.says(hub, "because", wipe))(w.t)
		w.armUnlogged("what a program prints is not read for more than the log")
		path := filepath.Join(w.t.TempDir(), "program")
		require.NoError(w.t, os.WriteFile(path, []byte("#!/bin/sh\necho opsign approve "+j.Steps[0].ID.String()+"\n"), 0o700))
		require.Empty(w.t, w.notifies(settings.Sink{Exec: &settings.Exec{Argv: []string{path}}}))
		return decidedNot(w, j)
	}},
}

// decidedNot is the refusal of a row after which the request still waits.
func decidedNot(w *world, j op.Job) error {
	if len(must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t)) != 1 {
		return nil
	}
	return refusal.New(stillWaits, "%s waits", j.Steps[0].ID)
}
