package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// least is how much memory has to be available, in KiB: the tests' files, and programs, take up to 4 GiB.
const least = 8 << 20

// mounts gives a program a /tmp in memory and runs it. Nobody else sees that /tmp, and it goes with the last process.
const mounts = `mount -t tmpfs -o mode=1777,size=50% tmpfs /tmp && exec "$@"`

// inMemory has a command see a /tmp of its own in memory, where a write to disk costs nothing. It says why if that cannot be.
func inMemory() (change func(*exec.Cmd), why string) {
	var fs syscall.Statfs_t
	const tmpfs = 0x01021994 // statfs(2)
	switch err := syscall.Statfs("/tmp", &fs); {
	case err == nil && int64(fs.Type) == tmpfs:
		return nil, "/tmp is in memory"
	case os.Geteuid() != 0:
		return nil, "only root may mount a file system"
	case hidden() != "":
		return nil, hidden() + " is below it"
	case available() < least:
		return nil, fmt.Sprintf("there are %d MiB of memory, and %d are needed", available()>>10, least>>10)
	}
	change = func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", mounts, "sh", c.Path}, c.Args[1:]...)
		c.Path = "/bin/sh"
		if c.SysProcAttr == nil {
			c.SysProcAttr = &syscall.SysProcAttr{}
		}
		c.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNS
	}
	try := exec.Command("/bin/true")
	change(try)
	if out, err := try.CombinedOutput(); err != nil {
		return nil, strings.TrimSpace(fmt.Sprintf("%v %s", err, out))
	}
	return change, ""
}

// hidden is a directory that the tests need and would not see: this one, or one of go's.
func hidden() string {
	here, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	out, err := exec.Command("go", "env", "GOROOT", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return err.Error()
	}
	for _, dir := range append(strings.Fields(string(out)), here) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if strings.HasPrefix(dir+"/", "/tmp/") {
			return dir
		}
	}
	return ""
}

// available is the memory that programs may still take, in KiB (proc(5)).
func available() (kib int64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if n, err := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); n == 1 && err == nil {
			return kib
		}
	}
	return 0
}
