package daemon

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/server"
)

// CheckSocket says beforehand whether this user may put a socket at a path, or, if
// that is empty, where the daemon listens unless it is told. It makes nothing.
func CheckSocket(path string) error {
	if path == "" {
		path = defaultSocket()
	}
	return server.CheckPlace(path)
}

// defaultSocket returns where the daemon listens unless it is told: under the
// runtime directory of the user, for root under /run.
func defaultSocket() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); os.Geteuid() != 0 && filepath.IsAbs(dir) {
		return filepath.Join(dir, "gated", "gated.sock")
	}
	return "/run/gated/gated.sock"
}

func (d *daemon) listen(path string) (*server.Socket, error) {
	if path == "" {
		path = d.config.Socket
	}
	if path == "" {
		path = defaultSocket()
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
