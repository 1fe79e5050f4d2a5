// Package unit finds the systemd service that started this process, and the files
// that say what that service runs: its unit file and its drop-ins.
package unit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/ownfile"
)

const suffix = ".service"

// cgroupFile is where the kernel says in which cgroups this process is.
const cgroupFile = "/proc/self/cgroup"

// Place is where a process looks for its service. The zero value is the host's own.
type Place struct {
	Cgroup string   // a file as /proc/self/cgroup; empty: that one
	Dirs   []string // the directories of unit files; nil: those of systemd.unit(5)
}

// Service is a service of systemd. Without a name it is none.
type Service struct {
	Name string // as gated.service or gated@blue.service
	User bool   // it belongs to a user's manager, and not to the system's

	dirs []string
}

// Service returns the service that this process runs in. Where there are no
// cgroups, there is none. Errors of the file system are *fs.PathError.
func (p Place) Service() (Service, error) {
	path := p.Cgroup
	if path == "" {
		path = cgroupFile
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Service{}, nil
	}
	if err != nil {
		return Service{}, err
	}
	s := parseCgroups(string(text))
	if s.dirs = p.Dirs; s.dirs == nil {
		s.dirs = searched(s.User, os.Getenv)
	}
	return s, nil
}

// parseCgroups reads cgroups(7), "/proc/pid/cgroup". systemd keeps its units in the
// hierarchy that it names, or in the only one of version 2. Those of controllers
// are not asked: others than systemd move processes there.
func parseCgroups(text string) Service {
	var unified Service
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) != 3:
		case f[1] == "name=systemd":
			if s := serviceOf(f[2]); s.Name != "" {
				return s
			}
		case f[0] == "0" && f[1] == "":
			unified = serviceOf(f[2])
		}
	}
	return unified
}

// serviceOf returns the service of a cgroup: the last unit on its path, if that is
// a service. A group behind it that is no unit is part of it: the recommended unit
// puts the daemon into one of its own (DelegateSubgroup=daemon).
//
// A service in the middle of the path, with another unit behind it, is not taken.
// It is a user's manager (user@1000.service) or a container's, and the unit behind it
// is a terminal's scope, or another service. Its file does not say how gated was
// started. A user's manager is not taken as the last unit either: it starts units
// alone, so that the group behind it is one that its user made.
func serviceOf(cgroup string) Service {
	parts := strings.Split(cgroup, "/")
	for i, part := range slices.Backward(parts) {
		name := strings.TrimPrefix(part, "_") // systemd puts that before names that the kernel keeps
		switch filepath.Ext(name) {
		case suffix:
			if name == suffix || isManager(name) {
				return Service{}
			}
			return Service{Name: name, User: slices.ContainsFunc(parts[:i], isManager)}
		case ".scope", ".slice", ".socket", ".mount", ".swap":
			return Service{}
		}
	}
	return Service{}
}

// isManager reports whether a unit is the service manager of a user.
func isManager(name string) bool {
	return strings.HasPrefix(name, "user@") && strings.HasSuffix(name, suffix)
}

// Check refuses, as ownfile.StrictModes does, a service that others could change:
// its unit file and drop-ins, and the directories in which systemd looks for them.
// What is not there, and what is masked, decides nothing.
func (s Service) Check(own ownfile.StrictModes) error {
	if s.Name == "" {
		return nil
	}
	for _, dir := range s.dirs {
		if err := present(own.Check(dir)); err != nil {
			return err
		}
		for _, name := range s.files() {
			if err := checkFile(own, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		for _, name := range s.dropIns() {
			if err := checkDropIns(own, filepath.Join(dir, name+".d")); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFile decides about a unit file or drop-in. One that is masked, which is a link
// to /dev/null, is in a directory that was checked, and says nothing.
func checkFile(own ownfile.StrictModes, path string) error {
	if to, err := os.Readlink(path); err == nil && to == os.DevNull {
		return nil
	}
	return present(own.Check(path))
}

// checkDropIns decides about a directory of drop-ins and all of them.
func checkDropIns(own ownfile.StrictModes, path string) error {
	dir, err := own.OpenDir(path)
	if err != nil {
		return present(err)
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if filepath.Ext(name) != ".conf" {
			continue // systemd reads no other
		}
		if err := checkFile(own, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// present takes the error away that says that a file is not there.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
