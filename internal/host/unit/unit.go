// Package unit finds the systemd service that started this process. It also finds the files
// that define the service: its unit file and its drop-ins.
package unit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/base/ownfile"
)

const suffix = ".service"

// cgroupFile is the kernel's list of this process' cgroups.
const cgroupFile = "/proc/self/cgroup"

// Place is where a process looks for its service. The zero value means the host's own places.
type Place struct {
	Cgroup string   // a file in the format of /proc/self/cgroup; empty means that file
	Dirs   []string // the directories of unit files; nil means those of systemd.unit(5)
}

// Service is a service of systemd. An empty name means no service.
type Service struct {
	Name string // such as gated.service or gated@blue.service
	User bool   // it belongs to a user's manager, not to the system's

	dirs []string
}

// Service returns the service that this process runs in. Without cgroups there is none. Errors
// of the file system are *fs.PathError.
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

// parseCgroups reads cgroups(7), "/proc/pid/cgroup". systemd keeps its units in its own
// hierarchy, or in the only one of version 2. The hierarchies of controllers do not count,
// because other programs move processes there.
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

// serviceOf returns the service of a cgroup: the last unit on its path, if that is a service. A
// group below it that is no unit belongs to the service, because a drop-in of contrib/systemd
// puts the daemon into such a group (DelegateSubgroup=daemon).
//
// A service in the middle of the path, above another unit, does not count. It is a user's
// manager (user@1000.service) or a container's. The unit below it is a terminal's scope, or
// another service. Its file does not say how gated was started. If the last unit is a user's
// manager, it does not count either. A manager only starts units, so its user made the group
// below it.
func serviceOf(cgroup string) Service {
	parts := strings.Split(cgroup, "/")
	for i, part := range slices.Backward(parts) {
		name := strings.TrimPrefix(part, "_") // systemd puts that before names that the kernel keeps for itself
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

// Check refuses a service that others could change, as ownfile.StrictModes does. It checks the
// unit file, that of the socket unit of the same name, the drop-ins of both, and the directories
// in which systemd looks for them. A missing or
// masked file does not count.
func (s Service) Check(own ownfile.StrictModes) error {
	if s.Name == "" {
		return nil
	}
	for _, dir := range s.dirs {
		if err := present(own.Check(dir)); err != nil {
			return err
		}
		for _, name := range withSockets(s.files()) {
			if err := checkFile(own, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		for _, name := range withSockets(s.dropIns()) {
			if err := checkDropIns(own, filepath.Join(dir, name+".d")); err != nil {
				return err
			}
		}
	}
	return nil
}

// withSockets adds the names of the socket units of services. Such a unit says who may connect.
func withSockets(names []string) []string {
	out := slices.Clone(names)
	for _, name := range names {
		if base, ok := strings.CutSuffix("."+name, suffix); ok { // "service" is for all services
			out = append(out, strings.TrimPrefix(base+".socket", "."))
		}
	}
	return out
}

// checkFile checks a unit file or a drop-in. A masked file is a link to /dev/null. Its
// directory was checked, and the file itself has no content.
func checkFile(own ownfile.StrictModes, path string) error {
	if to, err := os.Readlink(path); err == nil && to == os.DevNull {
		return nil
	}
	return present(own.Check(path))
}

// checkDropIns checks a directory of drop-ins and each file in it.
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
			continue // systemd ignores other files
		}
		if err := checkFile(own, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// present removes an error that says that a file is missing.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
