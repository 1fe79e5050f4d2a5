package life

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"gated/internal/base/ownfile"
	"gated/internal/host/state"
)

// CheckConfig reads the configuration of a state directory of this user's as its
// daemon does, and returns where it is and why that daemon refuses it. The path is
// empty if no gate is there, or another user's: root would follow that user's links.
func CheckConfig(dir string) (path string, refused error) {
	path = filepath.Join(dir, state.SettingsName)
	info, err := os.Stat(dir)
	if err != nil {
		return "", nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if _, err := os.Lstat(path); err != nil || !ok || st.Uid != uint32(os.Geteuid()) {
		return "", nil
	}
	c, err := settingsOf(ownfile.Own(), dir)
	if err == nil {
		err = CheckDeciding(c)
	}
	return path, err
}

// CheckedSettings is what a configuration that the daemon would take says, in short.
type CheckedSettings struct {
	File     string   `json:"file"`
	Host     string   `json:"host"`
	BackEnds []string `json:"back_ends"`
	Rules    int      `json:"rules"`
	Commands int      `json:"commands"`
	OldWords []string `json:"old_words"` // of earlier versions, each with what to write instead
}

// CheckSettings reads one configuration as a daemon does when it starts, with all that it names, and returns what it says,
// or why the daemon would refuse it. It reads nothing else, and needs no gate. For root it takes the part of the uid that the
// file's directory belongs to, because the daemon runs as that uid. The error is the file system's if the file is missing.
func CheckSettings(path string) (CheckedSettings, error) {
	none := CheckedSettings{}
	path, err := filepath.Abs(path)
	if err != nil {
		return none, err
	}
	if _, err := os.Stat(path); err != nil {
		return none, err
	}
	own := ownfile.Own()
	if os.Geteuid() == 0 {
		info, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return none, err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return none, fmt.Errorf("the owner of %s is not known", filepath.Dir(path))
		}
		own = ownfile.StrictModes{UID: st.Uid}
	}
	c, err := settingsIn(own, path)
	if err == nil {
		err = checkDeciding(own, c)
	}
	if err != nil {
		return none, err
	}
	return CheckedSettings{File: path, Host: c.Host, BackEnds: c.GuestBackends(), Rules: len(c.Policy.Rules), Commands: len(c.Commands), OldWords: append([]string{}, c.OldWords...)}, nil
}

// SettingsPath is where the configuration of a state directory is.
func SettingsPath(dir string) string { return filepath.Join(dir, state.SettingsName) }
