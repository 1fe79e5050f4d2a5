package harness_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// trustCodexHooks has Codex trust every hook of the checkout. Its own app-server lists the hooks, and writes their
// hashes into the user's configuration. No flag of codex exec is needed then.
func trustCodexHooks(t *testing.T, w *world) {
	s := startCodexServer(t, w)
	hooks := s.hooks(t, w.repo)
	require.NotEmpty(t, hooks)
	state := map[string]any{}
	for _, h := range hooks {
		require.Equal(t, "untrusted", h["trustStatus"])
		state[h["key"].(string)] = map[string]any{"trusted_hash": h["currentHash"]}
	}
	s.ask(t, "config/batchWrite", map[string]any{"reloadUserConfig": true,
		"edits": []any{map[string]any{"keyPath": "hooks.state", "mergeStrategy": "upsert", "value": state}}})
	for _, h := range s.hooks(t, w.repo) {
		require.Equal(t, "trusted", h["trustStatus"])
	}
}

// codexServer is codex app-server: JSON-RPC, a message a line.
type codexServer struct {
	in   io.Writer
	out  *bufio.Scanner
	last int
}

// startCodexServer starts the server of a world, which ends with the test at the latest.
func startCodexServer(t *testing.T, w *world) *codexServer {
	cmd := exec.Command(modules(".bin", "codex"), "app-server")
	cmd.Dir, cmd.Env = w.repo, w.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	// A server that does not answer is killed, and what reads from it then fails.
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	late := time.AfterFunc(patience, end)
	t.Cleanup(func() {
		late.Stop()
		end()
		_ = cmd.Wait() // it was killed
	})
	s := &codexServer{in: in, out: bufio.NewScanner(out)}
	s.out.Buffer(nil, 4<<20)
	s.ask(t, "initialize", map[string]any{"clientInfo": map[string]any{"name": "harness", "title": "h", "version": "0"}})
	_, err := fmt.Fprintln(s.in, `{"method":"initialized"}`)
	require.NoError(t, err)
	return s
}

// ask returns the result of a method. It ends the test if the server answers with an error.
func (s *codexServer) ask(t *testing.T, method string, params map[string]any) object {
	s.last++
	_, err := fmt.Fprintln(s.in, asJSON(map[string]any{"id": s.last, "method": method, "params": params}))
	require.NoError(t, err)
	for s.out.Scan() {
		var answer object
		require.NoError(t, json.Unmarshal(s.out.Bytes(), &answer))
		if answer["id"] == float64(s.last) {
			require.Contains(t, answer, "result", "%s", s.out.Bytes())
			return answer["result"].(map[string]any)
		}
	}
	require.FailNow(t, "codex app-server ended", "%s: %v", method, s.out.Err())
	return nil
}

// hooks lists the hooks of a checkout.
func (s *codexServer) hooks(t *testing.T, dir string) (out []object) {
	for _, in := range s.ask(t, "hooks/list", map[string]any{"cwds": []string{dir}}).list("data") {
		out = append(out, in.list("hooks")...)
	}
	return out
}
