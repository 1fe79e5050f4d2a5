package doctor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/agents/hook"
	"gated/internal/base/op"
)

// Gemini CLI runs no hook, not even one of the user's settings, in a directory that it does not trust. What follows is
// how version 0.61.0 decides that (packages/core/src/utils/trust.ts). An editor that it is connected to may decide
// otherwise, and so may its flag --skip-trust.

const (
	whatGeminiTrust = "trust of Gemini CLI"
	hintGeminiTrust = "start gemini here and trust the directory (/permissions trust), then gated doctor again"
	// maxGemini is the largest of Gemini CLI's files that is read, in bytes.
	maxGemini = 4 << 20
)

// geminiTrusts says whether Gemini CLI trusts the directory, and reports it.
func (d Doctor) geminiTrusts(r *Report) bool {
	trusted, why, err := d.geminiTrust()
	switch {
	case err != nil:
		r.add(whatGeminiTrust, Bad, "cannot be told: %s. Gemini CLI runs no hook in a directory that it does not trust", short(err)).
			hint(hintGeminiTrust)
		return true // the hooks are tried all the same
	case !trusted:
		r.add(whatGeminiTrust, Bad, "Gemini CLI does not trust this directory, and runs no hook in it: %s", why).hint(hintGeminiTrust)
	default:
		r.add(whatGeminiTrust, OK, "Gemini CLI trusts this directory: %s", why)
	}
	return trusted
}

// geminiTrust returns whether the directory is trusted, and what says so.
func (d Doctor) geminiTrust() (trusted bool, why string, err error) {
	switch asked := d.getenv("GEMINI_CLI_TRUST_WORKSPACE"); {
	case d.getenv("GEMINI_RESTRICTED_MODE") == "true":
		return false, "GEMINI_RESTRICTED_MODE is true", nil
	case asked == "false" || asked == "true":
		return asked == "true", "GEMINI_CLI_TRUST_WORKSPACE is " + asked, nil
	}
	home := filepath.Join(d.Place.Path, ".gemini")
	if dir := cmp.Or(d.getenv("GEMINI_CLI_HOME"), d.getenv("HOME")); filepath.IsAbs(dir) {
		home = filepath.Join(dir, ".gemini")
	} else if dir == "" {
		return false, "", errors.New("HOME names no directory")
	}
	system := cmp.Or(d.getenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH"), "/etc/gemini-cli/settings.json")
	defaults := cmp.Or(d.getenv("GEMINI_CLI_SYSTEM_DEFAULTS_PATH"), filepath.Join(filepath.Dir(system), "system-defaults.json"))
	// The settings of the checkout do not count: it could trust itself.
	for _, path := range []string{system, filepath.Join(home, "settings.json"), defaults} {
		text, err := geminiFile(path)
		if err != nil {
			return false, "", err
		}
		enabled, err := parseFolderTrust(text)
		if err != nil {
			return false, "", fmt.Errorf("%s: %w", path, err)
		}
		if enabled == nil {
			continue
		}
		if !*enabled {
			return true, op.Shown(path) + " has security.folderTrust.enabled: false", nil
		}
		break
	}
	path := cmp.Or(d.getenv("GEMINI_CLI_TRUSTED_FOLDERS_PATH"), filepath.Join(home, "trustedFolders.json"))
	text, err := geminiFile(path)
	if err != nil {
		return false, "", err
	}
	rules, err := parseTrustedFolders(text)
	if err != nil {
		return false, "", fmt.Errorf("%s: %w", path, err)
	}
	rule, found := trustRule(rules, d.Place.Path)
	if !found {
		return false, "no rule in " + op.Shown(path) + " is for it", nil
	}
	return rule.level != doNotTrust, fmt.Sprintf("%s has %s for %s", op.Shown(path), rule.level, op.Shown(rule.path)), nil
}

// geminiFile returns a file without its comments; nothing if there is none. A file that another user could have written
// is an error.
func geminiFile(path string) ([]byte, error) {
	if why := foreign(path); why != nil {
		return nil, why
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxGemini:
		return nil, fmt.Errorf("%s is no regular file of at most 4 MiB", path)
	}
	text, err := os.ReadFile(path)
	return hook.Uncommented(text, false), err
}

// parseFolderTrust returns what settings say of the trust in directories; nil if they do not.
func parseFolderTrust(text []byte) (*bool, error) {
	var s struct {
		Security struct {
			Folder struct {
				Enabled *bool `json:"enabled"`
			} `json:"folderTrust"`
		} `json:"security"`
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return nil, nil
	}
	err := json.Unmarshal(text, &s)
	return s.Security.Folder.Enabled, err
}

// The levels of trust in a directory: in it and what is below, in the directory above it and what is below that, none.
const (
	trustFolder = "TRUST_FOLDER"
	trustParent = "TRUST_PARENT"
	doNotTrust  = "DO_NOT_TRUST"
)

// trustLevel is the level of trust for a path.
type trustLevel struct{ path, level string }

// parseTrustedFolders returns the levels in the file's order. Another level is an error, as it is to Gemini CLI.
func parseTrustedFolders(text []byte) ([]trustLevel, error) {
	if len(text) == 0 { // no file
		return nil, nil
	}
	if !jsontext.Value(text).IsValid() || jsontext.Value(text).Kind() != '{' {
		return nil, errors.New("it is no JSON object of levels of trust")
	}
	var rules []trustLevel
	d := jsontext.NewDecoder(bytes.NewReader(text))
	_, _ = d.ReadToken() // the text is valid
	for d.PeekKind() == '"' {
		var r trustLevel
		if err := errors.Join(json.UnmarshalDecode(d, &r.path), json.UnmarshalDecode(d, &r.level)); err != nil {
			return nil, errors.New("it has a level of trust that is no text")
		}
		if r.level != trustFolder && r.level != trustParent && r.level != doNotTrust {
			return nil, fmt.Errorf("it has the level of trust %s, which Gemini CLI does not know", op.Shown(r.level))
		}
		r.path = filepath.Clean(r.path)
		if i := slices.IndexFunc(rules, func(o trustLevel) bool { return o.path == r.path }); i >= 0 {
			rules[i] = r
		} else {
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// trustRule returns the rule that counts for a directory: that with the longest path as it is written, of those that the
// directory is in, and of several the first. found is false if there is none.
func trustRule(rules []trustLevel, dir string) (rule trustLevel, found bool) {
	dir = real(dir)
	for _, r := range rules {
		if !filepath.IsAbs(r.path) || len(r.path) <= len(rule.path) {
			continue // a relative path would be one below the directory in which Gemini CLI starts
		}
		at := r.path
		if r.level == trustParent {
			at = filepath.Dir(at)
		}
		if at = real(at); at == dir || strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/") {
			rule, found = r, true
		}
	}
	return rule, found
}

// real returns a path without symbolic links; the path itself if that cannot be told.
func real(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}
