package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// Shadow is a file that another one hides, or that is not the one which runs.
type Shadow struct {
	What string `json:"what"` // a sentence
	Hint string `json:"hint"` // what to do
}

// Shadows compares the programs and units of this host: which gated a shell finds, which one the unit starts, and
// which unit wins. program is the gated that asks, path the PATH of its caller. An older gate that was made by hand
// hides a package so.
func Shadows(program, path string, units []string) []Shadow {
	out := []Shadow{}
	programs := installed(path)
	for _, other := range programs[min(1, len(programs)):] {
		out = append(out, Shadow{"shells find " + op.Shown(programs[0]) + " before " + op.Shown(other),
			"remove the one that you do not want"})
	}
	for _, name := range serviceUnits {
		found := unitFiles(name, units)
		for _, hidden := range found[min(1, len(found)):] {
			out = append(out, Shadow{op.Shown(found[0]) + " hides " + op.Shown(hidden),
				"compare them; to use the second: " + op.ShellWords("rm", found[0]) + " && systemctl daemon-reload"})
		}
	}
	if starts := startedProgram(units); starts != "" && !sameFile(starts, program) {
		out = append(out, Shadow{"gated.service starts " + op.Shown(starts) + ", and this is " + op.Shown(program),
			"systemctl cat gated shows which file says so"})
	}
	return out
}

// installed lists the different files called gated in PATH and where packages and make install put it, as a shell
// would find them.
func installed(path string) []string {
	var out []string
	for _, dir := range append(filepath.SplitList(path), "/usr/local/bin", "/usr/bin") {
		at := filepath.Join(dir, "gated")
		info, err := os.Stat(at)
		if err != nil || !filepath.IsAbs(dir) || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 ||
			slices.ContainsFunc(out, func(have string) bool { return sameFile(have, at) }) {
			continue
		}
		out = append(out, at)
	}
	return out
}

// unitFiles returns the different files of a unit, the one that wins first.
func unitFiles(name string, units []string) []string {
	var out []string
	for _, dir := range units {
		at := filepath.Join(dir, name)
		if exists(at) && !slices.ContainsFunc(out, func(have string) bool { return sameFile(have, at) }) {
			out = append(out, at)
		}
	}
	return out
}

// startedProgram returns the program that gated.service starts, "" if there is no such unit.
func startedProgram(units []string) string {
	found := unitFiles("gated.service", units)
	if len(found) == 0 {
		return ""
	}
	files := found[:1]
	var dropIns []string
	for _, dir := range units {
		more, _ := filepath.Glob(filepath.Join(dir, "gated.service.d", "*.conf")) // the pattern is not bad
		dropIns = append(dropIns, more...)
	}
	slices.SortStableFunc(dropIns, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	program := ""
	for _, path := range append(files, dropIns...) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if starts, says := parseExecStart(string(text)); says {
			program = starts
		}
	}
	return program
}

// parseExecStart returns the program of the last ExecStart= of a unit file, without the characters that may stand
// before it (systemd.service(5)). says is false if the file has none.
func parseExecStart(text string) (program string, says bool) {
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
		if !found {
			continue
		}
		says, program = true, ""
		if words := strings.Fields(strings.TrimLeft(value, "@-:+! ")); len(words) > 0 {
			program = words[0]
		}
	}
	return program, says
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	two, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, two)
}
