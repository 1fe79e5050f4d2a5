package hook

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// A product can be told to run no hook, in one file for the hooks of another.

// Switch is what a file says about running hooks at all.
type Switch struct {
	Off   string // the member by which no hook is run; empty if the file has none
	On    bool   // the file says that hooks are run
	Named bool   // Off names gated's hook alone: no other file can switch it on
}

// switchOf reads a file's JSON without comments.
func switchOf(text []byte) Switch {
	var s struct {
		Off    *bool `json:"disableAllHooks"`
		Gemini struct {
			Enabled  *bool    `json:"enabled"`
			Disabled []string `json:"disabled"` // names of hooks
		} `json:"hooksConfig"`
	}
	if json.Unmarshal(text, &s) != nil {
		return Switch{}
	}
	on := s.Gemini.Enabled
	switch {
	case s.Off != nil && *s.Off:
		return Switch{Off: "disableAllHooks"}
	case on != nil && !*on:
		return Switch{Off: "hooksConfig.enabled: false"}
	case slices.Contains(s.Gemini.Disabled, geminiName):
		return Switch{Off: "hooksConfig.disabled: " + geminiName, Named: true}
	}
	return Switch{On: s.Off != nil || on != nil}
}

// codexSwitch reads Codex's configuration.
func codexSwitch(text []byte) (Switch, error) {
	config, err := readTOML(text)
	if err != nil {
		return Switch{}, err
	}
	features, _ := config["features"].(map[string]any)
	for _, name := range []string{"hooks", "codex_hooks"} { // the second is the older name
		switch features[name] {
		case false:
			return Switch{Off: "features." + name + " = false"}, nil
		case true:
			return Switch{On: true}, nil
		}
	}
	return Switch{}, nil
}

// FileState is a file of settings as it was read.
type FileState struct {
	Settings
	SettingsState
}

// SwitchedOff returns the file and the member by which a product runs no hook; empty if it runs them. Of files that say it
// in several ways the nearest counts: the checkout's own that git does not share, the checkout's, the user's.
func SwitchedOff(d Dialect, files []FileState) (path, member string) {
	var list []FileState
	for _, f := range files {
		if f.Dialect() == d {
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b FileState) int { return a.rank() - b.rank() })
	for _, f := range list {
		if f.Named {
			return f.Path, f.Off
		}
	}
	for _, f := range list {
		if f.On || f.Off != "" {
			return f.Path, f.Off
		}
	}
	return "", ""
}

// rank orders files: the nearest first.
func (f FileState) rank() int {
	switch {
	case f.AtHome:
		return 2
	case strings.HasSuffix(filepath.Base(f.Path), ".local.json"):
		return 0
	}
	return 1
}
