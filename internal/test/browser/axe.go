package browser

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/stretchr/testify/require"
)

// pins has the exact version of axe-core, and the hash that npm compares its package with.
//
//go:embed testdata/axe
var pins embed.FS

var pinned = []string{"package.json", "package-lock.json"}

// unreached says why axe-core cannot be had on this machine. It is no finding in a page.
type unreached string

func (u unreached) Error() string { return "does not apply: " + string(u) }

// axe returns the program of axe-core. npm installs it into the user's cache once.
var axe = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	hash, files := sha256.New(), map[string][]byte{}
	for _, name := range pinned {
		if files[name], err = pins.ReadFile("testdata/axe/" + name); err != nil {
			return "", err
		}
		hash.Write(files[name])
	}
	dir := filepath.Join(cache, "gated-axe", hex.EncodeToString(hash.Sum(nil)[:8]))
	program := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if b, err := os.ReadFile(program); err == nil {
		return string(b), nil
	}
	if err := fetch(dir, files); err != nil {
		return "", err
	}
	b, err := os.ReadFile(program)
	return string(b), err
})

// fetch has npm install the package of the lock. Tests of other packages may do so at the same
// time, so it is installed beside its place and moved there.
func fetch(dir string, files map[string][]byte) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return unreached("npm is not installed (Debian: npm)")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	beside, err := os.MkdirTemp(filepath.Dir(dir), "new")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(beside) }() // it is a cache
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(beside, name), content, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = beside
	if out, err := cmd.CombinedOutput(); err != nil {
		if exec.Command("npm", "ping").Run() != nil {
			return unreached("npm does not reach its registry")
		}
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	if err := os.Rename(beside, dir); err != nil {
		if _, there := os.Stat(filepath.Join(dir, "node_modules")); there != nil {
			return err
		}
	}
	return nil
}

// Accessible fails the test for each finding of axe-core in the page as it is now. The test
// is skipped if axe-core cannot be had.
func (p *Tab) Accessible() {
	p.t.Helper()
	program, err := axe()
	if _, ok := err.(unreached); ok {
		p.t.Skip(err)
	}
	require.NoError(p.t, err)
	// The protocol evaluates it beside the page, so the page's policy does not matter.
	Eval[any](p, program+";0")
	require.Empty(p.t, Eval[[]string](p, findings), "axe-core finds")
}

const findings = `axe.run({resultTypes: ["violations", "incomplete"]}).then(found => found.violations.flatMap(v =>
	v.nodes.map(n => v.id + ": " + v.help + ": " + n.html.slice(0, 200))))`
