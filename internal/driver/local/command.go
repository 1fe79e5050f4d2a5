package local

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Command is an entry of the operator's local.commands.
type Command struct {
	Argv []string          // Argv[0] is an absolute path; gated expands nothing
	User string            // a name or a number; empty means the daemon's own user
	Env  map[string]string // the whole environment, except for GATED_GUEST
}

// account is the user that a command runs as.
type account struct {
	Switch bool   // whether the user is not the daemon's own
	UID    uint32 // without meaning if Switch is false; so is GID
	GID    uint32
}

// uid is the account's uid or the daemon's own.
func (a account) uid() uint32 {
	if a.Switch {
		return a.UID
	}
	return uint32(os.Geteuid())
}

// checkCommands refuses a command that could not run, so that the operator sees a wrong
// configuration when the daemon loads it. It returns the accounts by command name.
func checkCommands(commands map[string]Command) (map[string]account, error) {
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	sort.Strings(names)
	accounts := make(map[string]account, len(names))
	for _, name := range names {
		if op.CheckName(name) != nil {
			return nil, refusal.New(refusal.BadParams, "local.commands: %q is not a name", name)
		}
		a, err := commands[name].check()
		if err != nil {
			return nil, refusal.New(refusal.BadParams, "local.commands: %s: %v", name, err)
		}
		accounts[name] = a
	}
	return accounts, nil
}

func (c Command) check() (account, error) {
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		return account{}, fmt.Errorf("argv does not begin with an absolute path")
	}
	for _, s := range c.Argv {
		if strings.ContainsRune(s, 0) {
			return account{}, fmt.Errorf("argv holds a NUL")
		}
	}
	for k, v := range c.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) || k == markVar {
			return account{}, fmt.Errorf("the environment variable %q cannot be set", k)
		}
	}
	return lookupAccount(c.User)
}

// lookupAccount finds a user by name or number. Only root can change to another user.
func lookupAccount(name string) (account, error) {
	if name == "" {
		return account{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return account{}, fmt.Errorf("there is no user %q", name)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %q has the uid %q", name, u.Uid)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %q has the gid %q", name, u.Gid)
	}
	if uid == 0 {
		return account{}, fmt.Errorf("root runs no guest's command")
	}
	own := os.Geteuid()
	if int(uid) == own {
		return account{}, nil
	}
	if !switches() {
		return account{}, fmt.Errorf("only root, or a daemon with root's capabilities (contrib/systemd/guests.conf), can run it as %s", name)
	}
	return account{Switch: true, UID: uint32(uid), GID: uint32(gid)}, nil
}

// environ returns the environment of a guest's process. It has the command's variables, and the
// mark that finds stray processes. It has nothing of the daemon's own environment.
func (c Command) environ(inc op.Incarnation) []string {
	env := make([]string, 0, len(c.Env)+1)
	for k, v := range c.Env {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return append(env, markOf(inc))
}
