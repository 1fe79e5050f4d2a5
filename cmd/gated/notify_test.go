package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/notify"
	"gated/internal/notify/outbox"
)

// gated notify test goes by the settings and the files that they name: the authority, the secret address, the token.
// Nothing that it prints has a secret.
func TestNotifyTest(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	var got atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got.Store(r.RequestURI + " " + r.Header.Get("Authorization") + " " + string(b))
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "said "+r.RequestURI+"\x1b[31m")
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	file := write("notify.yaml", "state: "+dir+"\nsinks:\n  chat:\n    webhook: {url_file: "+write("url", s.URL+"/services/hush-hush\n")+", token_file: "+write("token", "tok-tok-tok")+
		", template: slack, ca_file: "+ca+"}\n    alarms: true\n  strange: {webhook: {url: "+s.URL+"}, alarms: true}\n")
	run := func(code int, args ...string) string {
		out := new(bytes.Buffer)
		tool := testTool()
		tool.Stdout, tool.Stderr = out, out
		require.Equal(t, code, tool.run(t.Context(), append([]string{"notify"}, args...)), out.String())
		require.NotContains(t, out.String(), "hush-hush")
		require.NotContains(t, out.String(), "tok-tok-tok")
		require.NotContains(t, out.String(), "\x1b")
		return out.String()
	}
	require.Contains(t, run(api.ExitDone, "test", "chat", "--config", file), "the sink chat took it: 200 OK: said (secret)")
	require.True(t, strings.HasPrefix(got.Load().(string), "/services/hush-hush Bearer tok-tok-tok {"), got.Load())
	require.Contains(t, run(api.ExitDone, "test", "chat", "--config", file, "--json"), `"taken":true`)
	status.Store(http.StatusForbidden)
	require.Contains(t, run(api.ExitRefused, "test", "chat", "--config", file), "the sink chat did not take it: 403 Forbidden")
	require.Contains(t, run(api.ExitRefused, "test", "chat", "--config", file, "--json"), `"taken":false`)
	require.Contains(t, run(api.ExitRefused, "test", "strange", "--config", file), "certificate")
	require.Contains(t, run(api.ExitRefused, "test", "none", "--config", file), "unknown_target")
	require.Contains(t, run(api.ExitDone, "check", file), "chat")
	require.Contains(t, run(api.ExitDone, "check", file, "--json"), `"name":"chat","type":"webhook"`)
	require.Contains(t, run(api.ExitUsage, "replay", "--config", file), "say the ID")
	require.Contains(t, run(api.ExitUsage, "replay", "--all", "a", "b", "--config", file), "at most a SINK")
	require.Contains(t, run(api.ExitRefused, "replay", "--all", "chat", "--config", file), "unknown_target")

	require.NoError(t, os.Chmod(filepath.Join(dir, "token"), 0o644))
	require.Contains(t, run(api.ExitRefused, "check", file), "not_allowed")
	bad := write("bad.yaml", "sinks:\n  chat:\n    webhook: {url: 'https://user:hush-hush@x.example/'}\n    alarms: true\n")
	require.Contains(t, run(api.ExitRefused, "check", bad), "bad.yaml:3")
	typo := write("typo.yaml", "sinks:\n  chat: {exec: {argv: [/bin/true]}, role: [operational]}\n")
	require.Contains(t, run(api.ExitRefused, "check", typo), "typo.yaml:2")
	require.Contains(t, run(api.ExitRefused, "check", filepath.Join(dir, "none.yaml")), "unknown_target")
}

// A second writer of the outbox ends the process that follows the gate: a replay beside it is refused and writes nothing.
func TestReplayWaitsForTheEndOfRun(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	file := filepath.Join(dir, "notify.yaml")
	require.NoError(t, os.WriteFile(file, []byte("state: "+state+"\nsinks:\n  me: {exec: {argv: [/bin/true]}, alarms: true}\n"), 0o600))
	unlock, err := notify.Lock(t.Context(), state)
	require.NoError(t, err)
	box, err := outbox.Open(t.Context(), notify.DatabaseIn(state), nil)
	require.NoError(t, err)
	replay := func() string {
		out := new(bytes.Buffer)
		tool := testTool()
		tool.Stdout, tool.Stderr = out, out
		require.Equal(t, api.ExitRefused, tool.run(t.Context(), []string{"notify", "replay", "--all", "--config", file}))
		return out.String()
	}
	require.Contains(t, replay(), "conflict: another gated notify runs")
	_, err = box.Replay(t.Context(), "", "", time.Now())
	require.NoError(t, err, "its writer goes on")
	require.NoError(t, box.Close())
	unlock()
	require.Contains(t, replay(), "there is no such dead letter")
}

// A program that says nothing took the message too.
func TestASinkThatSaysNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(file, []byte("state: "+filepath.Dir(file)+"\nsinks:\n  me: {exec: {argv: [/bin/true]}, alarms: true}\n"), 0o600))
	out := new(bytes.Buffer)
	tool := testTool()
	tool.Stdout, tool.Stderr = out, out
	require.Equal(t, api.ExitDone, tool.run(t.Context(), []string{"notify", "test", "me", "--config", file}), out.String())
	require.Equal(t, "the sink me took it, and said nothing\n", out.String())
}
