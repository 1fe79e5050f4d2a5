package unit

import (
	"path/filepath"
	"strings"
)

// files returns the names of the unit file: the service's own name and, for an instance, the
// template's name.
func (s Service) files() []string {
	name, instance, ok := strings.Cut(strings.TrimSuffix(s.Name, suffix), "@")
	if !ok || instance == "" {
		return []string{s.Name}
	}
	return []string{s.Name, name + "@" + suffix}
}

// dropIns returns the names whose drop-ins systemd reads for the service, by systemd.unit(5).
// These are the names of its file, its prefixes up to each dash (gate-.service for
// gate-blue.service), and "service", which is for all services.
func (s Service) dropIns() []string {
	name, instance, templated := strings.Cut(strings.TrimSuffix(s.Name, suffix), "@")
	if templated {
		instance = "@" + instance
	}
	out := []string{strings.TrimPrefix(suffix, ".")}
	for {
		out = append(out, Service{Name: name + instance + suffix}.files()...)
		dash := strings.LastIndexByte(strings.TrimSuffix(name, "-"), '-')
		if dash < 0 {
			return out
		}
		name = name[:dash+1]
	}
}

// searched returns the directories in which systemd looks for unit files, by systemd.unit(5).
// For a user's service, it assumes that the user's manager has the same environment.
func searched(user bool, getenv func(string) string) []string {
	if !user {
		return []string{"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
			"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator",
			"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late"}
	}
	out := []string{"/etc/xdg/systemd/user", "/etc/systemd/user", "/run/systemd/user", "/usr/local/share/systemd/user", "/usr/share/systemd/user",
		"/usr/local/lib/systemd/user", "/usr/lib/systemd/user", "/lib/systemd/user"}
	for _, own := range []struct {
		variable, inHome string
		names            []string
	}{
		{"XDG_CONFIG_HOME", ".config", []string{"user.control", "user"}},
		{"XDG_DATA_HOME", ".local/share", []string{"user"}},
		{"XDG_RUNTIME_DIR", "", []string{"user.control", "transient", "generator.early", "user", "generator", "generator.late"}},
	} {
		base := getenv(own.variable)
		if home := getenv("HOME"); !filepath.IsAbs(base) && own.inHome != "" {
			base = filepath.Join(home, own.inHome)
		}
		if !filepath.IsAbs(base) {
			continue // systemd also ignores a relative path
		}
		for _, name := range own.names {
			out = append(out, filepath.Join(base, "systemd", name))
		}
	}
	return out
}
