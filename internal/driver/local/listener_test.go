package local

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/seccomp"
)

// listenArg makes the test binary a guest's program that confines its own children, with a listener of its own.
const listenArg = "__listener"

func maybeListen() {
	if len(os.Args) != 2 || os.Args[1] != listenArg {
		return
	}
	_, err := seccomp.InstallTied([]unix.SockFilter{seccomp.Return(unix.SECCOMP_RET_ALLOW)})
	if err = errors.Join(err, os.WriteFile("listens", fmt.Append(nil, err), 0o600), os.WriteFile("up", []byte("up\n"), 0o600)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_, _ = unix.Poll(nil, -1)
}

// TestAProgramHasAListenerOfItsOwn: programs that confine others (a container's, a browser's) supervise their system calls. The
// kernel allows one listener in a chain of filters. So the driver takes it only if nothing else proves the guest's end.
func TestAProgramHasAListenerOfItsOwn(t *testing.T) {
	if !seccomp.Supported() {
		t.Skipf("%s needs seccomp", t.Name())
	}
	type kind struct {
		change func(*Config)
		says   string
	}
	kinds := map[string]kind{"the daemon's own user": {func(c *Config) { c.without.uid = true }, unix.EBUSY.Error()}}
	if switches() {
		group := realCgroup(t)
		kinds["uid"] = kind{func(*Config) {}, "<nil>"}
		kinds["cgroup"] = kind{func(c *Config) { c.without.uid, c.CgroupRoot = true, group }, "<nil>"}
		kinds["cgroup, no landlock"] = kind{func(c *Config) { c.without, c.CgroupRoot = layers{uid: true, landlock: true}, group }, unix.EBUSY.Error()}
		kinds["no cgroup of a kernel"] = kind{func(c *Config) { c.without.uid, c.CgroupRoot = true, fakeCgroups(t, "memory") }, unix.EBUSY.Error()}
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, forkers(t), func(c *Config) {
				c.Commands["listens"] = Command{Argv: []string{c.Commands["stays"].Argv[0], listenArg}}
			}, k.change)
			w.do("create", "web", "command", "listens", "state", "running")
			w.waitUp("web")
			require.Contains(t, w.content("web", dataDir, "listens"), k.says)
			w.do("stop", "web")
			o := w.observe("web")
			require.Equal(t, "none", factOf(o, "process"))
			require.Equal(t, Stopped, o.Running)
		})
	}
}
