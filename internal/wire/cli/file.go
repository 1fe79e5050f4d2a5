package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"gated/internal/base/refusal"
)

// ReadFile reads a file that the command line names. One that cannot be read is
// a usage error; more bytes than limit are Oversized.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Usage(err.Error())
	}
	defer func() { _ = f.Close() }() // nothing was written
	return Read(f, path, limit)
}

// Read reads what the command line calls by a name, as ReadFile does.
func Read(in io.Reader, name string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, Usage(err.Error())
	}
	if int64(len(b)) > limit {
		return nil, fileTooLarge(name, limit)
	}
	return b, nil
}

// Create makes a file that the command line names. One that is there already is
// a Conflict; one that cannot be made is a usage error.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil, fileExists(path)
	}
	if err != nil {
		return nil, Usage(err.Error())
	}
	return f, nil
}

func fileExists(path string) error {
	return refusal.New(refusal.Conflict, "%s exists", path).WithHint("name a new file")
}

func fileTooLarge(path string, limit int64) error {
	return refusal.New(refusal.Oversized, "%s has more than %d bytes", path, limit)
}
