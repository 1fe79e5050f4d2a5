package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gated/internal/test/programs"
)

// initialize makes the data of a new cluster. initdb takes two seconds of a processor, and a copy of what it made a tenth
// of that. So the first cluster of a run of make test keeps a copy beside the programs that are handed over to all tests.
func initialize(t testing.TB, data string) {
	t.Helper()
	kept := kept(t)
	if _, err := os.Stat(kept); kept == "" || err != nil {
		run(t, "initdb", "-D", data, "-U", owner, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
		if kept != "" {
			if err := keep(data, kept); err != nil {
				t.Logf("the next cluster needs an initdb of its own: %v", err)
			}
		}
		return
	}
	ok(t, os.CopyFS(data, os.DirFS(kept)))
	ok(t, os.Chmod(data, 0o700)) // or the server refuses it
	ok(t, filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		own(t, path)
		return err
	}))
}

// kept is where the copy is, for the initdb of this machine, or "" if no directory was handed over.
func kept(t testing.TB) string {
	dir := programs.HandedOver()
	if dir == "" {
		return ""
	}
	i, err := os.Stat(filepath.Join(bin, "initdb"))
	ok(t, err)
	return filepath.Join(dir, fmt.Sprintf("postgres-%d-%d", i.Size(), i.ModTime().Unix()))
}

// keep makes the copy. Of several tests that do so at once, one wins.
func keep(data, kept string) error {
	dir, err := os.MkdirTemp(filepath.Dir(kept), "making-")
	if err != nil {
		return err
	}
	made := filepath.Join(dir, "data")
	if err = os.CopyFS(made, os.DirFS(data)); err == nil && os.Rename(made, kept) != nil {
		_, err = os.Stat(kept)
	}
	return errors.Join(err, os.RemoveAll(dir))
}
