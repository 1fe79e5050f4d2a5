package fsck

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gated/internal/base/store"
)

// blanks are the files of databases without rows, of which each took a second of migrations to make. A process has one list of
// migrations; tests have a few.
var blanks struct {
	sync.Mutex
	all []blankFile
}

type blankFile struct {
	list []store.Migration
	file []byte
}

// blank returns the file of a database that has the tables of these migrations and no rows.
func blank(list []store.Migration) ([]byte, error) {
	blanks.Lock()
	defer blanks.Unlock()
	for _, b := range blanks.all {
		if slices.Equal(b.list, list) {
			return b.file, nil
		}
	}
	dir, err := os.MkdirTemp("", "gated-fsck-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "blank.db")
	s, err := store.Open(context.Background(), path, store.Options{Migrations: list})
	if err == nil {
		err = s.Close()
	}
	var file []byte
	if err == nil {
		file, err = os.ReadFile(path)
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err == nil {
		blanks.all = append(blanks.all, blankFile{slices.Clone(list), file})
	}
	return file, err
}
