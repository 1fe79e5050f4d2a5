package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/agents/hook"
	"gated/internal/base/op"
)

// whatTrust is the finding about Codex's trust in its hooks.
const whatTrust = "trust of Codex"

// limits says what a product may do in spite of a hook that refuses. The doctor's trial cannot show it.
func (d Doctor) limits(ctx context.Context, r *Report, speaks hook.Dialect, files []hook.FileState) {
	switch speaks.(type) {
	case hook.Codex:
		d.trust(ctx, r, files)
	case hook.Copilot:
		r.add(whatTools, Note, "Copilot CLI with --allow-all-tools is reported to make a call that its hook refused: "+
			"gated cannot hold it then").hint("do not use --allow-all-tools where reservations have to hold")
	}
}

// trust says of each file with an entry whether Codex trusts that entry, as Codex itself says. Codex runs no other entry.
func (d Doctor) trust(ctx context.Context, r *Report, files []hook.FileState) {
	ctx, cancel := context.WithTimeout(ctx, asks)
	defer cancel()
	hooks, err := d.codexHooks(ctx)
	if err != nil {
		r.add(whatTrust, Note, "not tried: %s. Codex runs no hook that it does not trust", short(err)).hint(hintTrust)
		return
	}
	for _, file := range files {
		for _, entry := range file.Hooks {
			at := slices.IndexFunc(hooks, func(h codexHook) bool { return h.Command == entry.Command && samePath(h.Path, file.Path) })
			path := op.Shown(file.Path)
			switch {
			case at < 0:
				r.add(whatTrust, Bad, "Codex does not load the hook in %s: it does not trust this checkout", path).hint(hintTrust)
			case !hooks[at].Enabled:
				r.add(whatTrust, Bad, "the hook in %s is disabled: Codex does not run it", path).hint(hintTrust)
			case hooks[at].Trust != "trusted" && hooks[at].Trust != "managed":
				r.add(whatTrust, Bad, "the hook in %s is %s: Codex does not run it", path, op.Shown(hooks[at].Trust)).hint(hintTrust)
			default:
				r.add(whatTrust, OK, "Codex trusts the hook in %s", path)
			}
		}
	}
}

// samePath reports whether two paths are of one file.
func samePath(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

const hintTrust = "start codex here, trust the checkout and the hook (/hooks), then gated doctor again"

// codexHook is a hook as Codex lists it.
type codexHook struct {
	Command string `json:"command"`
	Path    string `json:"sourcePath"`
	Enabled bool   `json:"enabled"`
	Trust   string `json:"trustStatus"`
}

// codexHooks asks the program codex for the hooks that it loads in the directory. It is an error if there is no such
// program, or if another user could have written it.
func (d Doctor) codexHooks(ctx context.Context) ([]codexHook, error) {
	path, err := exec.LookPath("codex")
	if err != nil || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the program codex is not found")
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	if why := foreign(path); why != nil {
		return nil, why
	}
	cmd := exec.CommandContext(ctx, path, "app-server")
	cmd.Dir, cmd.Env = d.Place.Path, d.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	list, err := askCodex(in, io.LimitReader(out, 8<<20), d.Place.Path)
	_ = cmd.Cancel() // it has answered, or never will
	_ = cmd.Wait()   // the kill is no news
	return list, err
}

// askCodex speaks with codex app-server.
func askCodex(in io.Writer, out io.Reader, dir string) ([]codexHook, error) {
	ask, err := json.Marshal(map[string]any{"id": 2, "method": "hooks/list", "params": map[string]any{"cwds": []string{dir}}})
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(in, "%s\n%s\n%s\n",
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"gated","title":"gated","version":"0"}}}`,
		`{"method":"initialized"}`, ask)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if list, ok := parseCodexHooks(lines.Bytes()); ok {
			return list, nil
		}
	}
	return nil, fmt.Errorf("codex app-server does not list its hooks")
}

// parseCodexHooks reads the answer to hooks/list. ok is false for any other message.
func parseCodexHooks(line []byte) (list []codexHook, ok bool) {
	var m struct {
		ID     int `json:"id"`
		Result *struct {
			Data []struct {
				Hooks []codexHook `json:"hooks"`
			} `json:"data"`
		} `json:"result"`
	}
	if json.Unmarshal(line, &m) != nil || m.ID != 2 || m.Result == nil {
		return nil, false
	}
	for _, d := range m.Result.Data {
		list = append(list, d.Hooks...)
	}
	return list, true
}
