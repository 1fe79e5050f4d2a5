package sink_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/notify/message"
	"gated/internal/notify/settings"
	"gated/internal/notify/sink"
	"gated/internal/test/must"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const gateID = "0123456789abcdef0123456789abcdef"

// waits is a message whose words try to become headers and addresses.
func waits() message.Message {
	return message.Message{ID: gateID + ":7", Thread: gateID + ":j5.1", Kind: message.Waits, Gate: gateID, Host: "pve1", At: noon, Urgent: true,
		Title:   "pve1: j5.1 guest.destroy guest/db waits\r\nBcc: all@evil.example\r\n\r\nhello ☃",
		Request: &message.Request{ID: "j5.1", Op: "guest.destroy", Target: "guest/db", Reasons: []message.Words{{Name: "uid:1000", Text: ".\r\nQUIT"}}, Missing: 1, Commands: []string{"opsign show j5.1"}}}
}

// authority makes certificates for loopback.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	is := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der := must.Get(x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key))(t)
	return authority{must.Get(x509.ParseCertificate(der))(t), key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// server returns the settings of a server with a certificate, changed by edit.
func (a authority) server(t *testing.T, edit func(*x509.Certificate)) *tls.Config {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	is := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}
	if edit != nil {
		edit(is)
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, is, a.cert, &key.PublicKey, a.key))(t)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// receiver starts an HTTPS server that answers so.
func (a authority) receiver(t *testing.T, edit func(*x509.Certificate), h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.TLS = a.server(t, edit)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, s settings.Sink) sink.Sink {
	s.Name = "s"
	if s.Timeout == 0 {
		s.Timeout = time.Minute
	}
	return must.Get(sink.Open(s))(t)
}

func failure(t *testing.T, err error) *sink.Failure {
	t.Helper()
	var f *sink.Failure
	require.ErrorAs(t, err, &f)
	return f
}

// A receiver that checks what Standard Webhooks and CloudEvents say.
func TestWebhook(t *testing.T) {
	a, secret := newAuthority(t), []byte("0123456789abcdef01234567")
	var got http.Header
	var body []byte
	s := a.receiver(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got, body = r.Header, must.Get(io.ReadAll(r.Body))(t)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "thanks\x1b[31m\u202e")
	})
	to := open(t, settings.Sink{Webhook: &settings.Webhook{URL: s.URL + "/gated", Secret: secret, Token: "bearer-1", CA: a.pem}})
	require.Equal(t, "202 Accepted: thanks[31m", must.Get(to.Send(t.Context(), waits(), noon))(t))
	require.Equal(t, gateID+":7", got.Get("webhook-id"))
	require.Equal(t, "1772366400", got.Get("webhook-timestamp"))
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", got.Get("webhook-id"), got.Get("webhook-timestamp"), body)
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), got.Get("webhook-signature"))
	require.Equal(t, "Bearer bearer-1", got.Get("Authorization"))
	require.Equal(t, "application/cloudevents+json", got.Get("Content-Type"))
	var event map[string]any
	require.NoError(t, json.Unmarshal(body, &event))
	require.Equal(t, "1.0", event["specversion"])
	require.Equal(t, gateID+":7", event["id"])
	require.Equal(t, "urn:gated:"+gateID, event["source"])
	require.Equal(t, "gated.waiting.v1", event["type"])
	require.Equal(t, "j5.1", event["subject"])
}

// The vector of the specification's own libraries (standard-webhooks, test of sign).
func TestWebhookVector(t *testing.T) {
	key := must.Get(settings.WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		sink.Signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)))
}

// Each product gets its own call.
func TestTemplates(t *testing.T) {
	a := newAuthority(t)
	var path, method string
	var body map[string]any
	s := a.receiver(t, nil, func(w http.ResponseWriter, r *http.Request) {
		path, method, body = r.URL.EscapedPath(), r.Method, nil
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		require.NoError(t, json.UnmarshalRead(r.Body, &body))
	})
	for template, member := range map[string]string{"slack": "blocks", "teams": "attachments", "telegram": "chat_id", "matrix": "m.mentions"} {
		to := open(t, settings.Sink{Webhook: &settings.Webhook{URL: s.URL + "/x", Template: template, Chat: "-1", Room: "!r/..:ex.org", Token: "t", CA: a.pem}})
		must.Get(to.Send(t.Context(), waits(), noon))(t, template)
		require.Contains(t, body, member, template)
		if template == "matrix" {
			require.Equal(t, http.MethodPut, method)
			require.Equal(t, "/x/_matrix/client/v3/rooms/%21r%2F..:ex.org/send/m.room.message/"+gateID+":7", path)
		} else {
			require.Equal(t, http.MethodPost+" /x", method+" "+path)
		}
	}
}

// strictNtfy is a receiver that refuses what https://docs.ntfy.sh/publish/ does not have.
func strictNtfy(t *testing.T, w http.ResponseWriter, r *http.Request) {
	var m struct {
		Topic    string   `json:"topic"`
		Title    string   `json:"title"`
		Message  string   `json:"message"`
		Priority int      `json:"priority"`
		Tags     []string `json:"tags"`
	}
	switch err := json.UnmarshalRead(r.Body, &m, json.RejectUnknownMembers(true)); {
	case err != nil, r.Method != http.MethodPost, r.URL.Path != "/", m.Topic == "", len(m.Message) > 4096, m.Priority < 1, m.Priority > 5, len(m.Tags) == 0:
		t.Errorf("ntfy: %v of %+v", err, m)
		w.WriteHeader(http.StatusBadRequest)
	case r.Header.Get("Authorization") != "Bearer tk_1":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code":40101,"error":"unauthorized"}`)
	default:
		_, _ = io.WriteString(w, `{"id":"hwQ2YpKdmg","event":"message"}`)
	}
}

func TestNtfy(t *testing.T) {
	a := newAuthority(t)
	s := a.receiver(t, nil, func(w http.ResponseWriter, r *http.Request) { strictNtfy(t, w, r) })
	to := open(t, settings.Sink{Ntfy: &settings.Ntfy{URL: s.URL, Topic: "ops", Token: "tk_1", CA: a.pem}})
	require.Contains(t, must.Get(to.Send(t.Context(), waits(), noon))(t), "hwQ2YpKdmg")
	to = open(t, settings.Sink{Ntfy: &settings.Ntfy{URL: s.URL, Topic: "ops", Token: "wrong", CA: a.pem}})
	f := failure(t, must.Err(to.Send(t.Context(), waits(), noon))(t))
	require.True(t, f.Refused)
	require.Contains(t, f.Why, "401")
}

// What an answer means, and how long a receiver can ask to wait.
func TestAnswers(t *testing.T) {
	a := newAuthority(t)
	var status atomic.Int64
	var after atomic.Value
	s := a.receiver(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		if v := after.Load().(string); v != "" {
			w.Header().Set("Retry-After", v)
		}
		w.WriteHeader(int(status.Load()))
	})
	to := open(t, settings.Sink{Webhook: &settings.Webhook{URL: s.URL, CA: a.pem}})
	for _, c := range []struct {
		status  int64
		after   string
		refused bool
		wait    time.Duration
	}{
		{500, "", false, 0}, {503, "120", false, 2 * time.Minute}, {429, "7", false, 7 * time.Second}, {408, "", false, 0}, {425, "", false, 0},
		{400, "", true, 0}, {401, "", true, 0}, {404, "", true, 0}, {410, "", true, 0}, {413, "", true, 0},
		{503, "999999", false, time.Hour}, {503, "-5", false, 0}, {503, "soon", false, 0},
		{503, "Sun, 01 Mar 2026 12:01:00 GMT", false, time.Minute}, {503, "Sun, 01 Mar 2020 12:01:00 GMT", false, 0},
	} {
		status.Store(c.status)
		after.Store(c.after)
		f := failure(t, must.Err(to.Send(t.Context(), waits(), noon))(t))
		require.Equal(t, c.refused, f.Refused, c)
		require.Equal(t, c.wait, f.After, c)
		require.Contains(t, f.Why, fmt.Sprint(c.status))
	}
}

// A redirect is not followed, whatever its status: the other host gets nothing, and the error names it without the
// rest of its address.
func TestRedirects(t *testing.T) {
	a := newAuthority(t)
	var stolen atomic.Int64
	other := a.receiver(t, nil, func(http.ResponseWriter, *http.Request) { stolen.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := a.receiver(t, nil, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/steal?token=abcdefgh", status)
		})
		to := open(t, settings.Sink{Webhook: &settings.Webhook{URL: s.URL + "/secret-path", Token: "bearer-1", CA: a.pem}})
		f := failure(t, must.Err(to.Send(t.Context(), waits(), noon))(t))
		require.True(t, f.Refused)
		require.Contains(t, f.Why, other.URL)
		require.NotContains(t, f.Why, "steal")
	}
	require.Zero(t, stolen.Load())
}

// A certificate of another authority, for another host, or from another time is refused; nothing is sent.
func TestCertificates(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	var got atomic.Int64
	for name, c := range map[string]struct {
		by   authority
		edit func(*x509.Certificate)
	}{
		"another authority": {b, nil},
		"another host":      {a, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"other.example"} }},
		"expired":           {a, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }},
	} {
		s := c.by.receiver(t, c.edit, func(http.ResponseWriter, *http.Request) { got.Add(1) })
		for _, to := range []settings.Sink{
			{Webhook: &settings.Webhook{URL: s.URL + "/secret-path", CA: a.pem}},
			{Ntfy: &settings.Ntfy{URL: s.URL, Topic: "t", CA: a.pem}},
			{Webhook: &settings.Webhook{URL: s.URL + "/secret-path"}}, // the system's authorities
		} {
			f := failure(t, must.Err(open(t, to).Send(t.Context(), waits(), noon))(t, name))
			require.Contains(t, f.Why, "certificate", name)
			require.False(t, f.Refused, "an operator can put it right")
			require.NotContains(t, f.Why, "secret-path")
		}
	}
	require.Zero(t, got.Load())
}

// What a receiver repeats of a secret is in no error and no answer.
func TestSecretsThatComeBack(t *testing.T) {
	a := newAuthority(t)
	var status atomic.Int64
	s := a.receiver(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, r.RequestURI+" "+r.Header.Get("Authorization")+" no such bot: hookhook, key value-of-it")
	})
	to := open(t, settings.Sink{Webhook: &settings.Webhook{URL: s.URL + "/services/T0/hookhook?k=value-of-it", Token: "bearer-1", CA: a.pem}})
	status.Store(200)
	said := must.Get(to.Send(t.Context(), waits(), noon))(t)
	status.Store(403)
	said += must.Err(to.Send(t.Context(), waits(), noon))(t).Error()
	require.NotContains(t, said, "bearer-1")
	require.NotContains(t, said, "hookhook")
	require.NotContains(t, said, "value-of-it")
	require.Contains(t, said, "(secret)")
}

// A receiver that sends a byte now and then, one that never answers, and one that answers without end: each ends at
// the timeout or at the bound.
func TestSlowAndEndless(t *testing.T) {
	a := newAuthority(t)
	release := make(chan struct{})
	silent := a.receiver(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) }) // before the server waits for its handlers
	to := open(t, settings.Sink{Timeout: 200 * time.Millisecond, Webhook: &settings.Webhook{URL: silent.URL, CA: a.pem}})
	f := failure(t, must.Err(to.Send(t.Context(), waits(), noon))(t))
	require.Contains(t, f.Why, "no answer within 200ms")
	require.False(t, f.Refused)

	loris := must.Get(tls.Listen("tcp", "127.0.0.1:0", a.server(t, nil)))(t)
	t.Cleanup(func() { _ = loris.Close() })
	go func() {
		for {
			c, err := loris.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for _, b := range []byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX: " + strings.Repeat("y", 1000)) {
					select {
					case <-tick.C:
					case <-release:
						return
					}
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
				}
			}()
		}
	}()
	to = open(t, settings.Sink{Timeout: 300 * time.Millisecond, Webhook: &settings.Webhook{URL: "https://" + loris.Addr().String(), CA: a.pem}})
	require.Contains(t, failure(t, must.Err(to.Send(t.Context(), waits(), noon))(t)).Why, "no answer within")

	endless := a.receiver(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 16 {
			if _, err := io.WriteString(w, strings.Repeat("z", 4096)); err != nil {
				return
			}
		}
	})
	to = open(t, settings.Sink{Webhook: &settings.Webhook{URL: endless.URL, CA: a.pem}})
	require.Less(t, len(must.Get(to.Send(t.Context(), waits(), noon))(t)), 2000, "it took the message; what it says further is not read")
}

func TestNobodyListens(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	require.NoError(t, l.Close())
	to := open(t, settings.Sink{Webhook: &settings.Webhook{URL: "http://" + l.Addr().String() + "/secret-path"}})
	f := failure(t, must.Err(to.Send(t.Context(), waits(), noon))(t))
	require.Contains(t, f.Why, "refused")
	require.NotContains(t, f.Why, "secret-path")
	require.False(t, f.Refused)
}

// A program gets one line of JSON, no shell, and almost no environment.
func TestExec(t *testing.T) {
	t.Setenv("A_SECRET_OF_THIS_PROCESS", "hidden")
	dir := t.TempDir()
	script := func(text string) string {
		path := filepath.Join(dir, "p.sh")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
		require.NoError(t, os.Chmod(path, 0o700))
		return path
	}
	send := func(timeout time.Duration, argv ...string) (string, error) {
		return open(t, settings.Sink{Timeout: timeout, Exec: &settings.Exec{Argv: argv}}).Send(t.Context(), waits(), noon)
	}
	out := filepath.Join(dir, "out")
	p := script(`cat > "$1"; env > "$1.env"; pwd; printf '%s' "$2"`)
	require.Equal(t, "/ $(id);`id`", must.Get(send(0, p, out, "$(id);`id`"))(t), "an argument is no shell's")
	m := must.Get(message.Parse(must.Get(os.ReadFile(out))(t)))(t)
	require.Equal(t, "j5.1", m.Request.ID)
	require.NotContains(t, string(must.Get(os.ReadFile(out+".env"))(t)), "hidden")

	for text, refused := range map[string]bool{"echo no >&2; exit 1": false, "exit 75": false, "exit 64": true, "exit 65": true} {
		f := failure(t, must.Err(send(0, script(text)))(t))
		require.Equal(t, refused, f.Refused, text)
	}
	require.Equal(t, "ok", must.Get(send(0, script("exec 0<&-; echo ok")))(t), "it need not read")
	require.Less(t, len(must.Get(send(0, script("yes | head -c 1000000")))(t)), 2000)
	f := failure(t, must.Err(send(300*time.Millisecond, script("sleep 600 & wait")))(t))
	require.Contains(t, f.Why, "no answer within")

	p = script("true")
	require.NoError(t, os.Chmod(p, 0o722))
	f = failure(t, must.Err(send(0, p))(t))
	require.Contains(t, f.Why, "mode")
	f = failure(t, must.Err(send(0, filepath.Join(dir, "none")))(t))
	require.False(t, f.Refused)
}

func TestATryEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	to := open(t, settings.Sink{Webhook: &settings.Webhook{URL: "https://127.0.0.1:1"}})
	err := must.Err(to.Send(ctx, waits(), noon))(t)
	require.True(t, errors.As(err, new(*sink.Failure)))
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "1e9", "99999999999999999999", "Sun, 01 Mar 2026 12:01:00 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := sink.RetryAfter(s, noon)
		require.True(t, d >= 0 && d <= time.Hour, d)
	})
}
