package daemon

import (
	"os"
	"path/filepath"

	"gated/internal/server"
)

// The names of what is in a state directory.
const (
	configName  = "gated.yaml"
	signersName = "allowed_signers"
	revokedName = "revoked"
	dbName      = "gated.db"
	guestsName  = "guests"
	lockName    = "lock"
	reserveName = "reserve"
)

// DefaultStateDir returns /var/lib/gated for root, else $XDG_STATE_HOME/gated,
// which is ~/.local/state/gated where that variable is not set.
func DefaultStateDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/gated"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gated")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "gated"
	}
	return filepath.Join(home, ".local", "state", "gated")
}

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
