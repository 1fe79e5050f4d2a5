package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// lockPatience is how long a hook waits for another that writes. A writer needs microseconds, unless it was
	// stopped.
	lockPatience = 50 * time.Millisecond
	lockPause    = time.Millisecond
)

// Home is the directory in which one user's hooks store what the next hook needs: each gate's circuit, and failures.
// Only that user may read it. If it cannot be written, hooks work and remember nothing.
type Home struct {
	dir      string
	gate     string // in file names: the gate of the circuit
	sockets  []string
	patience time.Duration
}

// HomeOf returns the directory that the environment names: $XDG_RUNTIME_DIR/gated/hooks, else
// $XDG_STATE_HOME/gated-hooks, else the same below ~/.local/state. It is made at the first write. gate is any text that
// differs between gates, such as the paths of the socket.
func HomeOf(getenv func(string) string, gate string) Home {
	sum := sha256.Sum256([]byte(gate))
	h := Home{gate: hex.EncodeToString(sum[:8]), patience: lockPatience}
	switch {
	case filepath.IsAbs(getenv("XDG_RUNTIME_DIR")):
		h.dir = filepath.Join(getenv("XDG_RUNTIME_DIR"), "gated", "hooks")
	case filepath.IsAbs(getenv("XDG_STATE_HOME")):
		h.dir = filepath.Join(getenv("XDG_STATE_HOME"), "gated-hooks")
	case filepath.IsAbs(getenv("HOME")):
		h.dir = filepath.Join(getenv("HOME"), ".local", "state", "gated-hooks")
	}
	return h
}

// Watching returns the same Home, with the paths at which the gate's socket may be. If another socket appears there,
// hooks try before an open circuit's time is over.
func (h Home) Watching(sockets ...string) Home {
	h.sockets = sockets
	return h
}

// Dir returns the directory's path, empty where the environment names none.
func (h Home) Dir() string { return h.dir }

func (h Home) path(name string) string { return filepath.Join(h.dir, name) }

// errHomeless says that the environment names no directory.
var errHomeless = errors.New("no directory for what hooks keep: set XDG_RUNTIME_DIR")

// errBusy says that another hook did not end its writing in time.
var errBusy = errors.New("another hook is writing")

// locked calls fn while no other hook writes. It returns errBusy instead of waiting for a writer that was stopped.
func (h Home) locked(fn func() error) error {
	if h.dir == "" {
		return errHomeless
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path("lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // closing also unlocks
	if err := flock(f, h.patience); err != nil {
		return err
	}
	return fn()
}

func flock(f *os.File, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pause := time.NewTicker(lockPause)
	defer pause.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return errBusy
		case <-pause.C:
		}
	}
}

// read returns the content of one of the files; empty if the file is missing or has more than limit bytes.
func (h Home) read(name string, limit int64) ([]byte, error) {
	if h.dir == "" {
		return nil, nil
	}
	f, err := os.OpenFile(h.path(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(b)) > limit {
		b = nil
	}
	return b, err
}

// replace replaces a file in one step. The caller has the lock.
func (h Home) replace(name string, content []byte) error {
	next := h.path(name + ".new")
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(next, h.path(name))
}
