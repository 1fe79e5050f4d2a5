package ownfile

import "path/filepath"

// StateDir returns a directory below $XDG_STATE_HOME, else below ~/.local/state. It is "" if neither
// XDG_STATE_HOME nor HOME is an absolute path.
func StateDir(getenv func(string) string, names ...string) string {
	dir := getenv("XDG_STATE_HOME")
	if home := getenv("HOME"); !filepath.IsAbs(dir) && filepath.IsAbs(home) {
		dir = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(append([]string{dir}, names...)...)
}
