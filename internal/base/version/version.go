// Package version says which version of gated a program is: a semantic version
// (semver.org 2.0.0) whose build metadata is the commit.
package version

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

// number is the release that this tree is, or becomes. CHANGELOG.md agrees with it.
//
//go:embed NUMBER
var number string

// What the build says about its checkout (Makefile).
var (
	tag    string // "v0.1.0" if the commit has such a tag
	commit string // 12 hexadecimal digits, with ".dirty" if files differ from it
)

// String returns "0.1.0+b964778c1234" of a commit that is tagged v0.1.0,
// "0.1.0-dev+b964778c1234" of any other, and "0.1.0-dev" if the commit is unknown.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return say(number, tag, commit, info)
}

func say(number, tag, commit string, info *debug.BuildInfo) string {
	v := strings.TrimSpace(number) + "-dev"
	if tag != "" {
		v = strings.TrimPrefix(tag, "v")
	}
	if commit == "" {
		commit = commitOf(info)
	}
	if commit == "" {
		return v
	}
	return v + "+" + commit
}

// commitOf returns the commit that the Go command found, which it does without the
// Makefile.
func commitOf(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			modified = s.Value
		}
	}
	if revision != "" && modified == "true" {
		revision += ".dirty"
	}
	return revision
}
