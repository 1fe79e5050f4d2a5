package harness_test

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// pins has the exact versions of the products and of Node.js, and the hash of each package that npm installs.
//
// The lock has the packages for Linux on amd64 alone, and none that a script of its own has to finish: no package's
// script runs. For new versions: npm install --package-lock-only, then remove the packages of other platforms, here and
// in each optionalDependencies, and every resolved. TestPins checks the result.
//
//go:embed testdata/package.json testdata/package-lock.json
var pins embed.FS

// pin reads a file of pins.
func pin(name string) ([]byte, error) { return pins.ReadFile("testdata/" + name) }

// notRun says why the products cannot be had on this machine. It is no failure of a product.
type notRun string

func (n notRun) Error() string { return "not run: " + string(n) }

// cacheDir is where the harness keeps the products, and where its runs have their directories.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil && strings.HasPrefix(cache, "/tmp/") {
		err = fmt.Errorf("the user's cache is %s, and Codex offers its shell no apply_patch below /tmp: set XDG_CACHE_HOME", cache)
	}
	return filepath.Join(cache, "gated-harness"), err
}

// install installs the products into the user's cache, and returns the directory. Later runs find them there, and need
// no npm.
func install() (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", notRun("the pinned packages are for linux on amd64, and this is " + runtime.GOOS + " on " + runtime.GOARCH)
	}
	cache, err := cacheDir()
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
	dir := filepath.Join(cache, hex.EncodeToString(hash.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(dir, "whole")); err == nil {
		return dir, nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", notRun("npm is not installed (on Debian: apt-get install npm)")
	}
	began := time.Now()
	if err := fetch(dir); err != nil {
		if ping, unreached := exec.Command("npm", "ping").CombinedOutput(); unreached != nil {
			return "", notRun(fmt.Sprintf("npm does not reach its registry: %v\n%s", unreached, ping))
		}
		return "", fmt.Errorf("npm reaches its registry, and does not install the products: %w", err)
	}
	fmt.Printf("harness: installed %d MiB in %s\n", size(dir)>>20, time.Since(began).Round(time.Second))
	return dir, os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
}

// fetch has npm install the packages of the lock, and no others. npm compares each package with its hash.
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
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// modules returns the path of a file that npm installed.
func modules(name ...string) string {
	return filepath.Join(append([]string{os.Getenv(installedIn), "node_modules"}, name...)...)
}

// size returns how many bytes the files of a directory have.
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
