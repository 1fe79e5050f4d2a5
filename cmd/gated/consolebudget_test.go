package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/web/passkey/passkeytest"
)

// visitor is a browser without a screen, which signs in at a console behind a proxy.
type visitor struct {
	t      *testing.T
	client *http.Client
	device *passkeytest.Device
}

func newVisitor(t *testing.T, socket string, d *passkeytest.Device) *visitor {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &visitor{t: t, client: &http.Client{Transport: tr, Jar: proxied{must.Get(cookiejar.New(nil))(t)}}, device: d}
}

func (v *visitor) get(path string) []byte {
	v.t.Helper()
	return v.answer(must.Get(http.NewRequest(http.MethodGet, "http://console.example.com"+path, nil))(v.t))
}

func (v *visitor) post(path string, body any) []byte {
	v.t.Helper()
	r := must.Get(http.NewRequest(http.MethodPost, "http://console.example.com"+path, bytes.NewReader(must.Get(json.Marshal(body))(v.t))))(v.t)
	r.Header.Set("Origin", consoleOrigin)
	r.Header.Set("Content-Type", "application/json")
	return v.answer(r)
}

func (v *visitor) answer(r *http.Request) []byte {
	v.t.Helper()
	resp := must.Get(v.client.Do(r))(v.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(v.t)
	require.Equal(v.t, http.StatusOK, resp.StatusCode, "%s %s: %s", r.Method, r.URL, b)
	return b
}

func (v *visitor) signIn() {
	v.t.Helper()
	var c struct {
		Challenge string `json:"challenge"`
		Message   string `json:"message"`
	}
	require.NoError(v.t, json.Unmarshal(v.post("/sign-in/challenge", struct{}{}), &c))
	a := v.device.Sign(v.t, must.Get(base64.RawURLEncoding.DecodeString(c.Challenge))(v.t))
	v.post("/sign-in", map[string]any{"message": c.Message, "assertion": jsontext.Value(must.Get(a.Encode())(v.t)), "to": "/"})
}

// The budget: 60 MiB for the whole process, with 50 gates and 1,000 requests, also after it has served all of them.
func TestConsoleWithFiftyGates(t *testing.T) {
	u := newTourist(t)
	socket := filepath.Join(u.home, "http.sock")
	args := []string{"--listen", "unix:" + socket}
	d := passkeytest.New(t, "console.example.com", consoleOrigin)
	var unread sync.WaitGroup
	unread.Add(50)
	for i := range 50 {
		path := filepath.Join(u.home, strconv.Itoa(i))
		aGate(t, path, i+1, 20, sync.OnceFunc(unread.Done),
			api.Trust{Epoch: 1, Text: "alice@example.com namespaces=\"operational@gated\" " + d.Key.Line() + "\n",
				Signers: []api.Signer{{Line: 1, Principal: "alice@example.com", Fingerprint: d.Key.Fingerprint(), Roles: []op.Role{op.Operational}}}})
		args = append(args, "--gate", path)
	}
	_, log, pid, end := u.consoleProcess(args...)
	unread.Wait()
	most := func() int {
		status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
		return must.Get(strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(status)[1]))(t)
	}
	before := most()
	v := newVisitor(t, socket, d)
	v.signIn()
	require.Contains(t, string(v.get("/")), `Waiting <span class="number">1000</span>`)
	for range 50 {
		v.get("/")
		v.get("/gates")
	}
	rss := most()
	t.Logf("50 gates with 20 requests each: %d KiB at most, %d KiB before the first page", rss, before)
	if !raced() {
		require.LessOrEqual(t, rss, 60<<10)
	}
	require.NotContains(t, log.String(), "does not answer as it should")
	end(syscall.SIGTERM)
}

// proxied is a jar whose cookies are for https, as a browser before the proxy has them.
type proxied struct{ jar http.CookieJar }

func (p proxied) SetCookies(u *url.URL, cookies []*http.Cookie) { p.jar.SetCookies(secure(u), cookies) }

func (p proxied) Cookies(u *url.URL) []*http.Cookie { return p.jar.Cookies(secure(u)) }

func secure(u *url.URL) *url.URL {
	s := *u
	s.Scheme = "https"
	return &s
}

// raced reports whether this was built with the race detector, which takes memory of its own.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
