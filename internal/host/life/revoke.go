package life

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gated/internal/authz"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/host/signers"
	"gated/internal/host/state"
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
// directory; root gives up its uid for the owner's, unless the file is in a
// directory of root's. If keys were revoked and the file is gone, Revoke refuses,
// as Conflict: a new file would pardon them.
func Revoke(ctx context.Context, stateDir string, keys []string) (Revocation, error) {
	by := os.Geteuid()
	who, err := ownerOf(stateDir)
	if err != nil {
		return Revocation{}, err
	}
	if by != 0 && by != who.uid {
		return Revocation{}, refusal.New(refusal.NotAllowed, "root and the gate's own user alone revoke keys").
			WithHint("do this as root")
	}
	var lines []string
	for _, k := range keys {
		line, err := signers.RevokedLine(k)
		if err != nil {
			return Revocation{}, err
		}
		lines = append(lines, line)
	}
	own := ownfile.StrictModes{UID: uint32(who.uid)}
	path, err := revokedFile(own, stateDir)
	if err != nil {
		return Revocation{}, err
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		if err := become(by, who); err != nil {
			return Revocation{}, err
		}
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := mayBegin(ctx, stateDir, path); err != nil {
			return Revocation{}, err
		}
	}
	return addRevoked(ctx, own, path, lines)
}

// revokedFile returns the path of the file of revoked keys itself, without links.
func revokedFile(own ownfile.StrictModes, stateDir string) (string, error) {
	c, err := settingsOf(own, stateDir)
	if err != nil {
		return "", err
	}
	path, _ := RevocationPath(c, stateDir)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	found, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", cannotRevoke(path, err)
	}
	return found, nil
}

// mayBegin refuses a new file if the log says that keys were revoked, or if the
// log cannot be read.
func mayBegin(ctx context.Context, stateDir, path string) error {
	o, err := look(ctx, stateDir)
	if err != nil {
		return err
	}
	revoked := false
	err = o.Store.View(ctx, func(tx *store.Tx) (err error) {
		revoked, err = signers.RevokedBefore(tx)
		return err
	})
	if err == nil && revoked {
		err = refusal.New(refusal.Conflict, "there is no %s any more, and keys were revoked: a new file would pardon them",
			path).
			WithHint("put the file back first. If it is lost, list every revoked key (gated audit export has them in signatures), and begin with an empty file")
	}
	return errors.Join(err, o.Close())
}

// addRevoked adds the lines that the file lacks, while no other process does.
func addRevoked(ctx context.Context, own ownfile.StrictModes, path string, lines []string) (Revocation, error) {
	waits, cancel := context.WithTimeout(ctx, revokePatience)
	defer cancel()
	unlock, err := ownfile.File{Path: path}.Lock(waits)
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
		return r, refusal.New(refusal.Malformed, "%s: %s", path, refusal.As(err).Detail).
			WithHint("mend that line first: until then every signature is refused")
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
	if err := ownfile.ReplaceAs(path, []byte(next), likeBefore(path)); err != nil {
		return r, cannotRevoke(path, err)
	}
	return r, nil
}

// revokePatience is how long Revoke waits for another one.
const revokePatience = 5 * time.Second

// likeBefore gives a new file the mode and owner of the one at path. If there is
// none, all may read the new one: it holds fingerprints, and the daemon reads it.
func likeBefore(path string) func(*os.File) error {
	return func(f *os.File) error {
		info, err := os.Stat(path)
		if err != nil {
			return f.Chmod(0o644)
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Geteuid() {
			err = f.Chown(int(st.Uid), int(st.Gid))
		}
		return errors.Join(err, f.Chmod(info.Mode().Perm()))
	}
}

// cannotRevoke says why the file was not changed.
func cannotRevoke(path string, err error) error {
	if errors.Is(err, refusal.NotAllowed) {
		return err
	}
	return refusal.New(refusal.Unavailable, "%s was not changed: %v", path, err).
		WithHint("write a new file with the key's line, and rename it over this one")
}
