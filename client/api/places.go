package api

import (
	"path/filepath"
	"strconv"
)

// SystemSocket is where a daemon of the system's own listens.
const SystemSocket = "/run/gated/gated.sock"

// socketName is the socket's path below the directory of a user's runtime or state files.
var socketName = filepath.Join("gated", "gated.sock")

// OwnSocket returns where the gate of a user's own listens: below XDG_RUNTIME_DIR, else below XDG_STATE_HOME, which is
// ~/.local/state unless it is set. Nobody but the user and root can make a socket there. It is "" for root, whose gate
// is the system's, and for a user without any of these directories.
func OwnSocket(uid uint32, getenv func(string) string, home string) string {
	if uid == 0 {
		return ""
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, socketName)
	}
	return stateSocket(getenv, home)
}

// SearchedSockets returns where a client looks for a gate that no setting names, in order. A shell of su or cron has no
// XDG_RUNTIME_DIR, and the gate may have been started in one that has it, or the other way round. So a client looks in
// both places.
func SearchedSockets(uid uint32, getenv func(string) string, home string) []string {
	var out []string
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		out = append(out, filepath.Join(dir, socketName))
	} else if uid != 0 {
		out = append(out, filepath.Join("/run/user", strconv.FormatUint(uint64(uid), 10), socketName)) // pam_systemd(8)
	}
	if uid != 0 {
		if path := stateSocket(getenv, home); path != "" {
			out = append(out, path)
		}
	}
	return append(out, SystemSocket)
}

func stateSocket(getenv func(string) string, home string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, socketName)
	}
	if filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", socketName)
	}
	return ""
}
