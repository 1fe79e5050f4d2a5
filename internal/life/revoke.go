package life

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/authz"
	"gated/internal/config"
	"gated/internal/op"
	"gated/internal/ownfile"
	"gated/internal/signers"
	"gated/internal/state"
)

// Revocation is what became of the file of revoked keys.
type Revocation struct {
	File  string
	Added []string // SHA256 fingerprints, in the order of the arguments; without those that the file lists already
	Count int      // keys that are revoked now
}

// RevocationPath returns the path of the file of revoked keys, and whether the
// configuration names it: then it has to be there.
func RevocationPath(c config.Config, dir string) (path string, required bool) {
	if c.RevocationFile != "" {
		return c.RevocationFile, true
	}
	return filepath.Join(dir, state.RevokedName), false
}

// Revoke adds keys to the file of revoked keys, in one rename. A key is a SHA256
// fingerprint or the path of a public key. The daemon may run: it reads the file
// within signers.RevokedInterval. The caller is root or the owner of the state
// directory; root gives up its uid for the owner's.
func Revoke(stateDir string, keys []string) (Revocation, error) {
	by := os.Geteuid()
	who, err := ownerOf(stateDir)
	if err != nil {
		return Revocation{}, err
	}
	if by != 0 && by != who.uid {
		return Revocation{}, op.Refuse(op.NotAllowed, "root and the gate's own user alone revoke keys").WithHint("do this as root")
	}
	var lines []string
	for _, k := range keys {
		line, err := signers.RevokedLine(k)
		if err != nil {
			return Revocation{}, err
		}
		lines = append(lines, line)
	}
	if err := become(by, who); err != nil {
		return Revocation{}, err
	}
	own := ownfile.StrictModes{UID: uint32(who.uid)}
	c, err := settingsOf(own, stateDir)
	if err != nil {
		return Revocation{}, err
	}
	path, _ := RevocationPath(c, stateDir)
	if found, err := filepath.EvalSymlinks(path); err == nil {
		path = found
	}
	return addRevoked(own, path, lines)
}

// addRevoked adds the lines that the file lacks, while no other process does.
func addRevoked(own ownfile.StrictModes, path string, lines []string) (Revocation, error) {
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return Revocation{}, cannotRevoke(path, err)
	}
	defer unlock()
	text, err := own.Read(path, authz.MaxRevoked)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Revocation{}, cannotRevoke(path, err)
	}
	r := Revocation{File: path}
	before, err := authz.LoadRevoked(text)
	if err != nil {
		return r, op.Refuse(op.Malformed, "%s: %s", path, op.AsRefusal(err).Detail).WithHint("mend that line first: until then every signature is refused")
	}
	next := string(text)
	if next != "" && !strings.HasSuffix(next, "\n") {
		next += "\n"
	}
	for _, line := range lines {
		one, err := authz.LoadRevoked([]byte(line))
		if err != nil {
			return r, err
		}
		if !before.Covers(one) && !slices.Contains(r.Added, line) {
			next += line + "\n"
			r.Added = append(r.Added, line)
		}
	}
	after, err := authz.LoadRevoked([]byte(next))
	if err != nil {
		return r, err
	}
	if r.Count = after.Count(); len(r.Added) == 0 {
		return r, nil
	}
	if err := state.ReplaceFile(path, []byte(next)); err != nil {
		return r, cannotRevoke(path, err)
	}
	return r, nil
}

// lockDir keeps another Revoke out of a directory. It waits for one that is under
// way, which takes milliseconds.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(d.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), d.Close())
	}
	return func() { _ = d.Close() }, nil // which also ends the lock
}

// cannotRevoke says why the file was not changed.
func cannotRevoke(path string, err error) error {
	if errors.Is(err, op.NotAllowed) {
		return err
	}
	return op.Refuse(op.Unavailable, "%s was not changed: %v", path, err).
		WithHint("add the key's line there yourself, in a new file that you rename over this one")
}
