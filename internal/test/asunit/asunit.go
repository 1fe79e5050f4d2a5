// Package asunit starts programs as the recommended unit of contrib/systemd starts
// the daemon, with the drop-in for guests, for tests alone: under a user that is not
// root, with the unit's capabilities, no_new_privs and umask. Restrictions of the
// unit that need a service manager are not there; they only take more away.
package asunit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Settings returns the settings of the unit, with those of the drop-in over them.
func Settings() (map[string]string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil, errors.New("there is no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	out := map[string]string{}
	for _, name := range []string{"gated.service", "guests.conf"} {
		text, err := os.ReadFile(filepath.Join(dir, "contrib", "systemd", name))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if ok && !strings.HasPrefix(key, "#") {
				out[key] = value
			}
		}
	}
	return out, nil
}

// Command returns a command under the settings, as the uid and with the capabilities,
// which are those of the unit or fewer. It needs setpriv (util-linux).
func Command(ctx context.Context, settings map[string]string, uid uint32, caps string, argv ...string) *exec.Cmd {
	id, set := strconv.FormatUint(uint64(uid), 10), "-all"
	for _, name := range strings.Fields(caps) {
		set += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	args := []string{"-c", "umask " + settings["UMask"] + `; exec "$@"`, "sh", "setpriv", "--reuid", id, "--regid", id, "--clear-groups",
		"--bounding-set", set, "--inh-caps", set, "--ambient-caps", set}
	if settings["NoNewPrivileges"] == "yes" {
		args = append(args, "--no-new-privs")
	}
	return exec.CommandContext(ctx, "/bin/sh", append(args, argv...)...)
}
