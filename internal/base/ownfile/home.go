package ownfile

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// Home returns the user's home directory: HOME, or what the accounts say if HOME is not an absolute path, as in a shell
// that env -i started. It is "" if the accounts do not know the user.
func Home(getenv func(string) string) string {
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return home
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return ""
	}
	return u.HomeDir
}
