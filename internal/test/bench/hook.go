package bench

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gated/client/api"
)

// hooking is one kind of process that is measured.
type hooking struct {
	what   string
	argv   []string
	input  []byte
	says   string // has to be in its output; "" for a process without output
	budget float64
	took   []float64
}

// hook measures the whole process that an agent's harness starts before each edit.
// Processes that do nothing take turns with it.
func (b *bench) hook() error {
	empty, err := b.emptyProgram()
	if err != nil {
		return err
	}
	dir, err := b.state("hook")
	if err != nil {
		return err
	}
	at, err := b.scope("hook-checkout")
	if err != nil {
		return err
	}
	s, err := b.holders(dir)
	if err != nil {
		return err
	}
	gated := b.program("gated")
	edit := func(path string) []byte { return toolCall(at.Path, filepath.Join(at.Path, path)) }
	kinds := []*hooking{
		{what: "a process that does nothing: /bin/true", argv: []string{"/bin/true"}},
		{what: "  a Go program that does nothing", argv: []string{empty}},
		{what: "  gated --version", argv: []string{gated, "--version"}, says: "gated", budget: 2},
		{what: "gated hook pre-tool-use, no conflict", argv: []string{gated, "hook", "pre-tool-use"},
			input: edit("doc/a.md"), budget: 4},
		{what: "  a conflict", argv: []string{gated, "hook", "pre-tool-use"}, input: edit("src/a.go"), says: `"deny"`,
			budget: 4},
	}
	if err = b.reserved(s, at); err == nil {
		err = b.runHooks(dir, kinds)
	}
	if err = errors.Join(err, s.stop()); err == nil {
		err = b.consistent(dir)
	}
	if err != nil {
		return err
	}
	away := []*hooking{{what: "  the daemon is away, its circuit open", argv: kinds[3].argv, input: kinds[3].input,
		says: "is not asked for some seconds", budget: 4}}
	for range 6 { // failures, which open the circuit
		if _, _, err := b.runHook(dir, away[0]); err != nil {
			return err
		}
	}
	if err := b.runHooks(dir, away); err != nil {
		return err
	}
	for _, k := range append(kinds, away...) {
		b.addf(k.what, middle(k.took), milliseconds, k.budget,
			"p95 %.2f ms, quickest %.2f ms", quantile(k.took, 0.95), quantile(k.took, 0))
	}
	return nil
}

// reserved has one of the clients reserve the path that the hook has to refuse.
func (b *bench) reserved(s *serving, at api.Place) error {
	claim, err := s.clients[0].claim(api.Reserve{Scope: at, Patterns: []string{"src/**"}, Reason: "bench"})
	if err == nil {
		_, err = s.clients[0].do(claim)
	}
	return err
}

// toolCall is the input that a harness writes to the hook.
func toolCall(dir, path string) []byte {
	b, err := api.Encode(map[string]any{"session_id": "bench", "hook_event_name": "PreToolUse", "cwd": dir,
		"tool_name": "Edit", "tool_input": map[string]any{
			"file_path": path, "old_string": "a", "new_string": strings.Repeat("b", 500)}})
	if err != nil {
		panic(err) // a map of strings
	}
	return b
}

// runHooks runs every kind by turns.
func (b *bench) runHooks(dir string, kinds []*hooking) error {
	for range b.size.hooks {
		for _, k := range kinds {
			took, out, err := b.runHook(dir, k)
			if err != nil {
				return err
			}
			if k.says == "" && len(out) > 0 || !bytes.Contains(out, []byte(k.says)) {
				return fmt.Errorf("%s said %q", k.what, out)
			}
			k.took = append(k.took, took)
		}
	}
	return nil
}

func (b *bench) runHook(dir string, k *hooking) (took float64, out []byte, err error) {
	cmd := exec.CommandContext(b.ctx, k.argv[0], k.argv[1:]...)
	cmd.Stdin = bytes.NewReader(k.input)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir,
		"GATED_SOCKET=" + socketIn(dir)}
	began := now()
	out, err = cmd.CombinedOutput()
	took = inMillis(now().Sub(began))
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", k.what, err, out)
	}
	return took, out, err
}

// emptySource is a Go program that does nothing.
//
//go:embed testdata/empty/main.go
var emptySource []byte

// emptyProgram builds the Go program that does nothing.
func (b *bench) emptyProgram() (string, error) {
	dir, err := b.dir("empty")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), emptySource, 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-o", filepath.Join(dir, "empty"),
		filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a program that does nothing: %w: %s", err, out)
	}
	return filepath.Join(dir, "empty"), nil
}
