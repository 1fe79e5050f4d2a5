package life

import (
	"errors"
	"path/filepath"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
)

// newDir makes a state directory; an empty path is DefaultStateDir. Before is told each path before it is made; nil is not.
func newDir(path string, before func(string)) (*state.Dir, error) {
	if path == "" {
		path = DefaultStateDir()
	}
	made, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir, err := state.Init(made, state.Options{Before: before})
	if r := (*refusal.Refusal)(nil); err != nil && !errors.As(err, &r) {
		err = refusal.New(refusal.BadParams, "the state directory cannot be made: %v", err).
			WithHint("choose another one with --state")
	}
	if err == nil && store.HasLog(dir.Database()) { // what takes a failed making back would take the log, too
		err = errors.Join(state.NotNew(made, "is gone, and its log is there"), dir.TakeBack())
		return nil, err
	}
	return dir, err
}

// file is one of a new state directory.
type file struct {
	name string
	text []byte
}

// fillNew writes the files of a new state directory, and has finish make the rest, of which the names are in later. If
// that fails, it takes away again what was made, and nothing else.
func fillNew(dir *state.Dir, files []file, later []string, finish func() error) (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				_ = dir.Remove(name)
			}
		}
	}()
	for _, f := range files {
		if err = create(dir, f.name, f.text); err != nil {
			return err
		}
		made = append(made, f.name)
	}
	made = append(made, later...)
	if err = dir.Still(); err != nil { // the store opens the database by its path
		return err
	}
	if err = finish(); err != nil {
		return err
	}
	return dir.Still()
}

// create writes a file of a new state directory, on disk, or leaves none.
func create(dir *state.Dir, name string, text []byte) error {
	f, err := dir.Create(name)
	if err := state.Written(filepath.Join(dir.Path(), name), f, text, err); err != nil {
		if f != nil {
			_ = dir.Remove(name)
		}
		return err
	}
	return nil
}
