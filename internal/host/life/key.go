package life

import (
	"fmt"
	"os"

	"gated/internal/base/ownfile"
	"gated/internal/host/state"
	"gated/internal/log/checkpoint"
)

// maxKey is the longest key file that is read, in bytes.
const maxKey = 4 << 10

// ReadKey reads a key file that nobody else can read or change. Its directory is
// nobody else's, so the file that is looked at is the one that is read.
func ReadKey(path string) (checkpoint.Key, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return checkpoint.Key{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return checkpoint.Key{}, fmt.Errorf("others may read or change %s (mode %04o); it has to be 0600", path, info.Mode().Perm())
	}
	text, err := state.ReadBounded(ownfile.Own(), path, maxKey)
	if err != nil {
		return checkpoint.Key{}, err
	}
	key, err := checkpoint.ParseKey(string(text))
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return key, err
}
