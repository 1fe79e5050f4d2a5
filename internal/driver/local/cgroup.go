package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroups is the cgroup v2 directory for the guests' groups, with the limits that it supports.
// The zero value has no directory.
type cgroups struct {
	root   string
	memory bool
	cpu    bool
	why    string // why it limits less than both, or ""
}

// openCgroups looks at a cgroup v2 directory, and enables for its children the controllers that
// limits need. If it cannot enable one, the reason is in why.
func openCgroups(root string) cgroups {
	if root == "" {
		return cgroups{why: "no cgroup is configured"}
	}
	b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return cgroups{why: fmt.Sprintf("%s is no cgroup v2 directory: %v", root, err)}
	}
	c := cgroups{root: root}
	have := strings.Fields(string(b))
	for _, name := range []string{"memory", "cpu"} {
		if !slices.Contains(have, name) {
			c.why = fmt.Sprintf("%s has no %s controller", root, name)
			continue
		}
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
			c.why = fmt.Sprintf("%s: turn on %s: %v", root, name, err)
			continue
		}
		c.memory = c.memory || name == "memory"
		c.cpu = c.cpu || name == "cpu"
	}
	return c
}

// cgroup is the group of one guest. The methods of "" do nothing.
type cgroup string

// of names the group of the guest with that uuid.
func (c cgroups) of(uuid string) cgroup {
	if c.root == "" {
		return ""
	}
	return cgroup(filepath.Join(c.root, "guest-"+uuid))
}

// group makes the guest's group with its limits.
func (c cgroups) group(s spec) (cgroup, error) {
	g := c.of(s.UUID)
	if g == "" {
		return "", nil
	}
	if err := os.Mkdir(string(g), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("cgroup: %w", err)
	}
	return g, c.limit(g, s)
}

// limit writes the guest's limits. It also lifts a limit that the guest no longer has.
func (c cgroups) limit(g cgroup, s spec) error {
	if g == "" {
		return nil
	}
	var err error
	if c.memory {
		limit := "max"
		if s.Memory > 0 {
			limit = strconv.FormatInt(s.Memory<<20, 10)
		}
		err = g.write("memory.max", limit)
	}
	if c.cpu {
		const period = 100_000 // µs, the kernel's default
		limit := "max"
		if s.CPUs > 0 {
			limit = strconv.FormatInt(s.CPUs*period, 10)
		}
		err = errors.Join(err, g.write("cpu.max", limit+" "+strconv.Itoa(period)))
	}
	return err
}

// used is how many MiB the group's processes hold that the kernel cannot drop: memory.current has the page cache, too.
func (c cgroups) used(g cgroup) int64 {
	if g == "" || !c.memory {
		return 0
	}
	stat, err := os.ReadFile(filepath.Join(string(g), "memory.stat"))
	if err != nil {
		return 0
	}
	var bytes int64
	for line := range strings.Lines(string(stat)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "anon" || name == "shmem" {
			n, _ := strconv.ParseInt(value, 10, 64)
			bytes += n
		}
	}
	return (bytes + 1<<20 - 1) >> 20
}

func (g cgroup) write(file, value string) error {
	if err := os.WriteFile(filepath.Join(string(g), file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// add moves a process into the group.
func (g cgroup) add(pid int) error {
	if g == "" {
		return nil
	}
	return g.write("cgroup.procs", strconv.Itoa(pid))
}

// kill ends every process in the group, also those that left the session. Before Linux 5.14 it
// does nothing.
func (g cgroup) kill() error {
	if g == "" {
		return nil
	}
	err := g.write("cgroup.kill", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// watched reports if the kernel says when the group is empty.
func (g cgroup) watched() bool {
	_, err := os.Stat(filepath.Join(string(g), "cgroup.events"))
	return g != "" && err == nil
}

// drain waits until the group's processes are gone after a kill, or ctx ends. It reports if the
// kernel said that the group is empty. The kernel also kills what a process of the group makes
// while it is killed (Documentation/admin-guide/cgroup-v2.rst, cgroup.kill).
func (g cgroup) drain(ctx context.Context) (empty bool, err error) {
	if g == "" {
		return false, nil
	}
	events, err := os.Open(filepath.Join(string(g), "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // there is no such group, or it is none of a kernel
	}
	if err != nil {
		return false, fmt.Errorf("cgroup: %w", err)
	}
	defer events.Close()
	for {
		b := make([]byte, 4096)
		n, err := events.ReadAt(b, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("cgroup: %w", err)
		}
		if slices.Contains(strings.Split(string(b[:n]), "\n"), "populated 0") {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, fmt.Errorf("%s has processes that do not end: %w", g, ctx.Err())
		}
		// The kernel wakes a poll when the line changes. The time is for the end of ctx alone.
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("cgroup: %w", err)
		}
	}
}

// remove deletes the group if it is empty. If its processes are still ending, the next start
// uses it again or removes it.
func (g cgroup) remove() {
	if g != "" {
		_ = unix.Rmdir(string(g))
	}
}
