package proxmox

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

const secretLine = "gated@pve!gate=11111111-2222-4333-8444-555555555555\n"

// served is a client of a server that answers every request with fn.
func served(t *testing.T, fn http.HandlerFunc) (*client, *httptest.Server, Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(fn)
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	cfg := Config{URL: s.URL, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.pem"), Timeout: time.Minute}
	require.NoError(t, os.WriteFile(cfg.TokenFile, []byte(secretLine), 0o600))
	require.NoError(t, os.WriteFile(cfg.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	return must.Get(newClient(cfg))(t), s, cfg
}

// Every answer except 2xx is an error. The error says if the work may be done, and if a later
// request may succeed.
func TestAnswersThatAreErrors(t *testing.T) {
	for status, c := range map[int]struct{ untouched, passing bool }{
		302: {true, false}, 400: {true, false}, 401: {true, false}, 403: {true, false}, 404: {true, false}, 429: {true, true},
		500: {true, false}, 501: {true, false}, 502: {false, false}, 503: {true, true}, 504: {false, false},
		595: {true, true}, 596: {false, false}, 599: {false, false},
	} {
		api, _, _ := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"data":null,"errors":{"vmid":"wrong"}}`))
		})
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			_, err := api.send(t.Context(), method, "/x", values{"a": "b"})
			require.True(t, isAnswered(err, status), "%d: %v", status, err)
			require.ErrorContains(t, err, `{"vmid":"wrong"}`)
			require.Equal(t, c.untouched, untouched(err), "%d", status)
			require.Equal(t, c.passing, passing(err), "%d", status)
			ended := worked("x", err)
			require.Equal(t, !c.untouched, driver.IsUnknown(ended), "%d", status)
			require.Equal(t, c.untouched && c.passing, driver.IsTransient(ended), "%d", status)
			require.ErrorIs(t, unreachable(err), refusal.Unavailable)
		}
	}
}

// The client follows no redirect, because the request has the token.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed") }))
	defer other.Close()
	api, _, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, err := api.send(t.Context(), "POST", "/x", values{"a": "b"})
	require.True(t, isAnswered(err, 307), "%v", err)
}

// Each request is sent once and ends at its deadline, in the head of an answer or in its body.
func TestEachRequestOnceAndInTime(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	var mu sync.Mutex
	sent := map[string]int{}
	for _, where := range []string{"head", "body", "dropped"} {
		api, _, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			sent[where+r.Method]++
			mu.Unlock()
			if where == "dropped" {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_ = conn.Close()
				}
				return
			}
			if where == "body" {
				_, _ = w.Write([]byte(`{"data":`))
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-end:
			case <-r.Context().Done():
			}
		})
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			api.timeout = time.Minute
			if where != "dropped" {
				api.timeout = time.Second
			}
			_, err := api.send(t.Context(), method, "/x", nil)
			require.Error(t, err)
			require.Equal(t, where != "dropped", strings.Contains(worded(err), "in time"), "%v", err)
			require.True(t, driver.IsUnknown(worked("x", err)), "it may have been done: %v", err)
			mu.Lock()
			require.Equal(t, 1, sent[where+method], "%s %s", method, where)
			mu.Unlock()
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	api, _, _ := served(t, func(http.ResponseWriter, *http.Request) {})
	must.Fail(api.send(gone, "DELETE", "/x", nil))(t, context.Canceled)
}

// An answer has a bounded length and the right form.
func TestAnswersThatAreNone(t *testing.T) {
	body := ""
	api, _, _ := served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	require.Len(t, must.Get(readAll(strings.NewReader(strings.Repeat(" ", maxAnswer))))(t), maxAnswer)
	for _, body = range []string{strings.Repeat(" ", maxAnswer+1), "<html>", `{"data":`, ``, `{"data":null}`, `{}`, `{"data":{}}`, `{"data":[1]}`, `{"data":[{"a":1,"a":2}]}`, `[]`, `null`} {
		must.Err(api.list(t.Context(), "/x", nil))(t, "%.40q", body)
	}
	body = `{"data":[]}`
	require.Empty(t, must.Get(api.list(t.Context(), "/x", nil))(t))
	body = `{"data":{"a":1,"b":"2","c":true,"d":null,"e":{"f":1},"g":0.5}}`
	o := must.Get(api.get(t.Context(), "/x", nil))(t)
	require.Equal(t, object{"a": "1", "b": "2", "c": "1", "e.f": "1", "g": "0.5"}, o)
}

// An answer without data is an error, and data that is null is empty.
func TestAnswerWithoutData(t *testing.T) {
	body := ""
	api, _, _ := served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	for _, body = range []string{`{}`, `{"success":1}`, `null`, `[]`, ``, `{"data":1,"data":2}`, `{"data":null} x`} {
		must.Err(api.send(t.Context(), "GET", "/x", nil))(t, "%q", body)
	}
	body = `{"success":1,"data":null}`
	require.Empty(t, must.Get(api.send(t.Context(), "GET", "/x", nil))(t))
	body = `{"data": "a text"}`
	require.Equal(t, `"a text"`, string(must.Get(api.send(t.Context(), "GET", "/x", nil))(t)))
}

// Numbers reach the server unchanged, in a query and in a body. Without parameters there is
// neither.
func TestParametersAreTexts(t *testing.T) {
	var query, kind, body, content string
	api, _, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		query, kind, content = r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Content-Type")
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(text)
		_, _ = w.Write([]byte(`{"data":null}`))
	})
	for _, method := range []string{"POST", "PUT"} {
		must.Get(api.send(t.Context(), method, "/x", values{"vmid": "100000000", "name": "a&b <c>"}))(t)
		require.JSONEq(t, `{"vmid":"100000000","name":"a&b <c>"}`, body)
		require.Equal(t, "application/json", content)
		must.Get(api.send(t.Context(), method, "/x", nil))(t)
		require.Empty(t, body+content+query)
	}
	must.Err(api.send(t.Context(), "PATCH", "/x", nil))(t)
	must.Get(api.send(t.Context(), "GET", "/x", values{"b": "1 2", "a": "&"}))(t)
	require.Equal(t, "a=%26&b=1+2", query)
	must.Get(api.send(t.Context(), "GET", "/x", values{"vmid": "999999999"}))(t)
	require.Equal(t, "vmid=999999999", query)
	require.Equal(t, "PVEAPIToken="+strings.TrimSpace(secretLine), kind)
	must.Get(api.send(t.Context(), "DELETE", "/x", values{"vmid": "100000000"}))(t)
	require.Equal(t, "vmid=100000000", query)
}

// The client only talks to a server with the pinned certificate. Before that, it sends nothing.
func TestTrust(t *testing.T) {
	var asked atomic.Int64
	_, s, cfg := served(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); _, _ = w.Write([]byte(`{"data":{}}`)) })
	must.Err(newClient(Config{URL: cfg.URL, TokenFile: cfg.TokenFile, Fingerprint: "AB:CD"}))(t)
	cfg.CAFile, cfg.Fingerprint = "", strings.TrimSuffix(strings.Repeat("AB:", 32), ":")
	api := must.Get(newClient(cfg))(t)
	_, err := api.get(t.Context(), "/version", nil)
	var pin *pinError
	require.ErrorAs(t, err, &pin)
	require.True(t, untouched(err), "nothing was sent")
	require.True(t, driver.IsTransient(worked("x", err)))
	cfg.Fingerprint = pin.got
	api = must.Get(newClient(cfg))(t)
	for range 3 { // a resumed connection is checked, too
		must.Get(api.get(t.Context(), "/version", nil))(t)
		s.CloseClientConnections()
	}
	require.EqualValues(t, 3, asked.Load())
	other := filepath.Join(t.TempDir(), "none.pem")
	require.NoError(t, os.WriteFile(other, []byte("no certificate"), 0o644))
	_, err = newClient(Config{URL: cfg.URL, TokenFile: cfg.TokenFile, CAFile: other + ".missing"})
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, "proxmox.ca_file cannot be read: ")
	_, err = newClient(Config{URL: cfg.URL, TokenFile: cfg.TokenFile, CAFile: other})
	require.ErrorContains(t, err, "no certificate in PEM")
	cfg.Fingerprint, cfg.CAFile, cfg.URL = "", "", "https://127.0.0.1:1"
	require.ErrorIs(t, cfg.setDefaults(), refusal.BadParams)
}

// A token file that other users can read is refused.
func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(file, []byte(secretLine), 0o600))
	id, secret, err := readToken(file)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(secretLine), id+"="+secret)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o602} {
		require.NoError(t, os.Chmod(file, mode))
		_, _, err = readToken(file)
		require.ErrorIs(t, err, refusal.Conflict, "%#o", mode)
	}
	require.NoError(t, os.Chmod(file, 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	_, _, err = readToken(link)
	require.ErrorIs(t, err, refusal.Conflict)
	_, _, err = readToken(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, "proxmox.token_file cannot be read: open ")
	require.Contains(t, refusal.As(err).Hint, "pveum user token add")
	_, _, err = readToken(dir)
	require.ErrorIs(t, err, refusal.Conflict)
	for _, text := range []string{"", "x", "gated@pve=secret-secret", secretLine + secretLine, " " + secretLine, "PVEAPIToken=" + secretLine} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, _, err = readToken(file)
		require.ErrorIs(t, err, refusal.Malformed, "%q", text)
		require.NotContains(t, fmt.Sprint(err), "1111")
	}
}

func TestTaskIDs(t *testing.T) {
	node := must.Get(nodeOf("UPID:pve1:0000C5B2:00AB12CD:6912A0F3:qmdestroy:100:gated@pve!gate:"))(t)
	require.Equal(t, "pve1", node)
	for _, bad := range []string{"", "UPID", "UPID:pve1:1:2:3:qmstart:100:root@pam", "UPID:a/../b:1:2:3:x:100:root@pam:", "XPID:pve1:1:2:3:x:100:root@pam:"} {
		must.Err(nodeOf(bad))(t, bad)
	}
	require.NoError(t, ended("OK"))
	require.NoError(t, ended("WARNINGS: 2"))
	require.ErrorContains(t, ended("VM 100 not running"), "not running")
	require.True(t, driver.IsUnknown(ended("")))
	require.True(t, driver.IsUnknown(ended("unexpected status")))
	require.Equal(t, "vm-100-2026-11-22T04-00-00Z", backupName("pbs:backup/vm/100/2026-11-22T04:00:00Z"))
	require.Equal(t, "vzdump-qemu-100-2026_11_22-04_00_00.vma.zst", backupName("local:backup/vzdump-qemu-100-2026_11_22-04_00_00.vma.zst"))
	require.Empty(t, backupName("local"))
	require.Empty(t, backupName("local:backup/a b"))
}
