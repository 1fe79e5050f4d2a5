package story

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"

	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/test/acceptor"
)

// replayed is how many logs of stories were replayed.
var replayed atomic.Int64

// replay asks for each database below a story's directory whether the model allows its log. A story may leave one that is damaged
// or of another version.
func replay(t testscript.T, dir string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "gated.db" || !d.Type().IsRegular() {
			return nil // a guest's directory may be closed to this user
		}
		found, err := acceptor.Database(context.Background(), path, life.Migrations())
		var version *store.TooNewError
		if errors.Is(err, store.ErrCorrupt) || errors.As(err, &version) {
			return nil
		}
		if err != nil {
			return err
		}
		replayed.Add(1)
		for _, v := range found {
			t.Log(path, "has what the model does not allow:", v)
		}
		if len(found) > 0 {
			t.FailNow()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
