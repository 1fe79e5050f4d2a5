package ownfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pause is the time between two attempts to get a lock.
const pause = 10 * time.Millisecond

// MakeDir makes the file's directory with mode 0700 if it is missing, and checks it as CheckDir
// does.
func (f File) MakeDir() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return f.CheckDir()
}

// Lock takes the lock file, Path and ".lock", for this process alone. It waits for other
// processes. If ctx ends first, it returns the error of ctx.
func (f File) Lock(ctx context.Context) (unlock func(), err error) {
	path := f.Path + ".lock"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = file.Close() }, nil // a close also releases the lock
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			_ = file.Close() // it was not locked
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close() // it was not locked
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// Replace replaces the file with a new one of mode 0600, and makes it durable. A reader sees
// the old or the new text, also after a crash. More bytes than Max are Oversized.
func (f File) Replace(text []byte) error {
	if int64(len(text)) > f.Max {
		return f.oversized("would have")
	}
	return ReplaceAs(f.Path, text, func(*os.File) error { return nil })
}

// ReplaceAs puts a new file with that text at path, as File.Replace does. prepare gives
// the new file, which has mode 0600, another mode or owner before it is at path.
func ReplaceAs(path string, text []byte, prepare func(*os.File) error) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err == nil {
		err = prepare(tmp)
	}
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return SyncDir(dir)
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
