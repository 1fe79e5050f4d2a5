package client

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/strictyaml"
)

// SystemFile says where the gate of this host is, for all of its users. What is the user's own comes first: client.yaml in
// $XDG_CONFIG_HOME/gated, which is ~/.config/gated unless that variable is set, and a gate that the user runs.
const SystemFile = "/etc/gated/client.yaml"

// maxPlaceFile is the largest client.yaml, in bytes.
const maxPlaceFile = 64 << 10

// place is where a gate of this host may listen.
type place struct {
	paths []string
	uid   *uint32 // that may run it too, besides root and the user; nil for none
	file  string  // the client.yaml that says so; empty for none
	key   string  // the path of the key that signs; empty for none
}

// place finds the gate that the options, the environment or a file name. Without any of them there are several paths,
// in their order. What is the user's comes before what is the host's: so the host's file does not hide a gate that the
// user runs. A file is read only if it decides.
func (o Options) place() (place, error) {
	if o.Socket != "" {
		return place{paths: []string{o.Socket}}, nil
	}
	if p := o.Getenv("GATED_SOCKET"); p != "" {
		return place{paths: []string{p}}, nil
	}
	home := ownfile.Home(o.Getenv)
	if path := userFile(o.Getenv, home); path != "" {
		if p, err := readPlace(path, home, ownModes()); err != nil || len(p.paths) > 0 {
			return p, err
		}
	}
	paths := api.SearchedSockets(uint32(os.Geteuid()), o.Getenv, home)
	last := len(paths) - 1
	if o.System != "" {
		paths[last] = o.System
	}
	if !slices.ContainsFunc(paths[:last], isThere) {
		if p, err := readPlace(o.systemFile(), "", ownfile.StrictModes{}); err != nil || len(p.paths) > 0 {
			return p, err
		}
	}
	return place{paths: paths}, nil
}

func ownModes() ownfile.StrictModes {
	uid := uint32(os.Geteuid())
	return ownfile.StrictModes{UID: uid, Private: ownfile.PrivateGroup(uid)}
}

// OwnKey returns the path of the key that the user's own client.yaml says signs, and the path of that file; both are empty if no such
// file names a key.
func (o Options) OwnKey() (key, file string, err error) {
	home := ownfile.Home(o.Getenv)
	path := userFile(o.Getenv, home)
	if path == "" {
		return "", "", nil
	}
	p, err := readPlace(path, home, ownModes())
	if err != nil || p.key == "" {
		return "", "", err
	}
	return p.key, path, nil
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (o Options) systemFile() string {
	if o.File != "" {
		return o.File
	}
	return SystemFile
}

// userFile returns the path of the user's own client.yaml, "" if there is no place for it.
func userFile(getenv func(string) string, home string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "gated", "client.yaml")
}

// readPlace reads a client.yaml, and returns no path if there is no such file. NotAllowed: another user than the file's
// own and root could have written it, and could send this user's calls to a gate of theirs.
func readPlace(path, home string, own ownfile.StrictModes) (place, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return place{}, nil // in a directory that is closed to this user, there is nothing for this user
	}
	text, err := own.Read(path, maxPlaceFile)
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &refused):
		return place{}, refusal.New(refused.Code, "%s says where the gate is, and is not believed: %s", op.Shown(path), refused.Detail).
			WithHint("%s; or name the gate with --socket or GATED_SOCKET", refused.Hint)
	case err != nil:
		return place{}, refusal.New(refusal.Malformed, "%s, which says where the gate is, cannot be read: %v", op.Shown(path), err).
			WithHint("chmod a+r it, or move it away, or name the gate with --socket or GATED_SOCKET")
	case len(text) > maxPlaceFile:
		return place{}, refusal.New(refusal.Oversized, "%s has more than %d bytes", op.Shown(path), maxPlaceFile).
			WithHint("it needs one line: socket: %s", SystemSocket)
	}
	return parsePlace(path, home, text)
}

// parsePlace reads the text of a client.yaml: socket, and uid if neither root nor the user runs the gate. The file of a user with that
// home may name a key, with or without a socket.
func parsePlace(path, home string, text []byte) (place, error) {
	root, err := strictyaml.Parse(path, text)
	if err == nil {
		p := place{file: path}
		socket, own := root.Get("socket"), home != "" && root.Get("key").Present()
		if own {
			p.key = keyIn(root.Get("key"), home)
		} else {
			socket = root.Need("socket")
		}
		if at := socket.Text(); filepath.IsAbs(at) {
			p.paths = []string{at}
		} else if socket.Present() && socket.Sound() {
			socket.Fail("socket is %q, not an absolute path", at)
		}
		if uid := root.Get("uid"); uid.Present() {
			n := uint32(uid.Int(0, math.MaxUint32-1))
			p.uid = &n
			if !socket.Present() {
				uid.Fail("uid says who runs the gate at socket, and there is no socket")
			}
		}
		if err = root.Done(); err == nil {
			return p, nil
		}
	}
	return place{}, refusal.New(refusal.Malformed, "%v", err).
		WithHint("it has one line, socket: %s, and if another user than root or you runs the gate, a second: uid: NUMBER", SystemSocket)
}

// keyIn returns the path of a key. ~/ is the user's home.
func keyIn(key strictyaml.Value, home string) string {
	path := key.Text()
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(home, rest)
	}
	if key.Sound() && !filepath.IsAbs(path) {
		key.Fail("key is %q, neither an absolute path nor one that begins with ~/", path)
	}
	return path
}
