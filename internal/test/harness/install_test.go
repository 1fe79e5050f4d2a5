package harness_test

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// pins has the products' exact versions, and the hash of each package.
//
//go:embed testdata/package.json testdata/package-lock.json
var pins embed.FS

// pin reads a file of pins.
func pin(name string) ([]byte, error) { return pins.ReadFile("testdata/" + name) }

// errNoRegistry says that the products cannot be had here, which is no failure.
var errNoRegistry = errors.New("npm is not installed, or reaches no registry")

// install installs the products into the user's cache, and returns the directory. Later runs find them there.
func install() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := pin(name)
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	dir := filepath.Join(cache, "gated-harness", hex.EncodeToString(hash.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(dir, "whole")); err == nil {
		return dir, nil
	}
	began := time.Now()
	if err := fetch(dir); err != nil {
		if exec.Command("npm", "ping").Run() != nil {
			return "", fmt.Errorf("%w: %v", errNoRegistry, err)
		}
		return "", err
	}
	fmt.Printf("harness: installed %d MiB of products in %s\n", size(dir)>>20, time.Since(began).Round(time.Second))
	return dir, os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
}

// fetch has npm install the products. No package's script runs, except that of opencode, which links its program.
// It is not npm ci: that demands each optional package of other platforms in the lock, and not every registry has them.
// npm install compares each package of the lock with its hash, too.
func fetch(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := pin(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	for _, line := range [][]string{
		{"npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"},
		{"node", "node_modules/opencode-ai/postinstall.mjs"},
	} {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", line, err, out)
		}
	}
	return nil
}

// size returns how many bytes the files of a directory have. A file with two names counts once for each.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // what cannot be read counts nothing
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
