package daemon

import (
	"cmp"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"gated/client/api"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/server"
)

// CheckSocket says beforehand whether this user may put a socket at a path, or, if
// that is empty, where the daemon listens unless it is told. It makes nothing.
func CheckSocket(path string) error {
	if path != "" {
		return server.CheckPlace(path)
	}
	path = defaultSocket()
	for ownPlace(path) && !exists(filepath.Dir(path)) {
		path = filepath.Dir(path) // makeOwnPlace makes it
	}
	return server.CheckPlace(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// defaultSocket returns where the daemon listens unless it is told: a place of the
// user's own, which clients of the user know, and for root the system's.
func defaultSocket() string {
	return cmp.Or(api.OwnSocket(uint32(os.Geteuid()), os.Getenv, ownfile.Home(os.Getenv)), api.SystemSocket)
}

// ownPlace reports whether a path is below the user's own directories.
func ownPlace(path string) bool { return path != api.SystemSocket && path != filepath.Dir(path) }

// makeOwnPlace makes the directories above the socket that belong to the user alone. What it cannot make, the
// listener says.
func makeOwnPlace(path string) {
	if ownPlace(path) {
		_ = os.MkdirAll(filepath.Dir(path), 0o700)
	}
}

// listen takes the socket that a service manager passed, or makes one at path.
func (d *daemon) listen(path string, passed []*os.File) (*server.Socket, error) {
	path = cmp.Or(path, d.config.Socket)
	if len(passed) > 0 {
		return d.adopt(passed, path)
	}
	if path == "" {
		path = defaultSocket()
		makeOwnPlace(path)
	}
	gid, err := socketGroup(d.config.SocketGroup)
	if err != nil {
		return nil, err
	}
	socket, err := server.Listen(path, gid)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err == nil && info.Mode()&(fs.ModeSticky|0o002) == 0o002 {
		d.log.Warn("everybody may write to the socket's directory, and can take the socket away; choose another place, or chmod o-w", "directory", dir)
	}
	return socket, nil
}

// adopt takes the service manager's socket, whose group and mode its unit says.
func (d *daemon) adopt(passed []*os.File, told string) (*server.Socket, error) {
	socket, err := server.Adopt(passed, told)
	if err == nil && d.config.SocketGroup != "" {
		d.log.Warn("socket_group has no effect, because a socket unit made the socket; set SocketGroup= in that unit",
			"socket_group", d.config.SocketGroup, "socket", socket.Path())
	}
	return socket, err
}

// socketGroup returns the group whose members may connect, -1 for none. Root's
// default is the group gated, if there is one.
func socketGroup(name string) (int, error) {
	implied := name == ""
	if implied {
		if os.Geteuid() != 0 {
			return -1, nil
		}
		name = life.ServiceUser
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		if implied {
			return -1, nil
		}
		return -1, refusal.New(refusal.BadParams, "socket_group: there is no group %q", name).
			WithHint("make it (groupadd --system %s) and add who may ask, name a group of this host in gated.yaml, or take the line out", name)
	}
	return strconv.Atoi(g.Gid)
}
