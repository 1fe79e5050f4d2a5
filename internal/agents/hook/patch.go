package hook

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"gated/internal/agents/shell"
	"gated/internal/agents/steer"
	"gated/internal/base/refusal"
)

// beginPatch is the first line of a patch for the tool apply_patch.
const beginPatch = "*** Begin Patch"

// patchHeaders begin the lines of a patch that name a file.
var patchHeaders = []string{"*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"}

// patchPaths returns the paths that a patch names, each once, as they are written. Readers of patches differ in which
// blanks may stand before a header. So every line that is a header for one of them counts, and too much is asked rather
// than too little. A line that begins with + or - is content for all of them.
func patchPaths(text string) []string {
	var out []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = trimmed(line)
		for _, header := range patchHeaders {
			path, ok := strings.CutPrefix(line, header)
			if path = trimmed(path); ok && !seen[path] {
				seen[path] = true
				out = append(out, path)
			}
		}
	}
	return out
}

// trimmed removes blanks as JavaScript does: also a byte order mark.
func trimmed(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' })
}

// parsePatch returns the paths that a tool's patch names. Malformed if it is no patch, or if it names no file. If a file
// has no name, it also returns the others.
func parsePatch(text string) ([]string, error) {
	at := strings.Index(text, beginPatch)
	if at < 0 {
		return nil, refusal.New(refusal.Malformed, "the call's patch has no line %q", beginPatch)
	}
	return filesOf(patchPaths(text[at:]))
}

// filesOf refuses a patch that names no file, or one without a name. It returns the names that are there.
func filesOf(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, refusal.New(refusal.Malformed, "the call's patch names no file")
	}
	named := slices.DeleteFunc(paths, func(p string) bool { return p == "" })
	if len(named) < len(paths) {
		return named, refusal.New(refusal.Malformed, "the call's patch has a file without a name")
	}
	return named, nil
}

// applies finds the name of a program that applies patches.
var applies = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`apply_?patch|codex-run-as-apply-patch`) })

// parseShell returns the files that the patches in a shell's line change; nothing for a line that applies none. A relative
// path stands below each directory in which the shell may be. Malformed if the line does not tell all files: the shell
// would make a path, a directory or the whole patch from something else. It then returns those that it tells, and those
// of each patch in the line, as if it began where the call does.
func parseShell(line string, at shell.Place) (out []string, err error) {
	if !applies().MatchString(line) && !strings.Contains(line, beginPatch) {
		return nil, nil
	}
	list, whole := shell.Patches(line, at)
	if !whole && applies().MatchString(line) && strings.Contains(line, beginPatch) {
		err = refusal.New(refusal.Malformed, "the shell's line may apply a patch, and has a mistake or is too long")
	}
	for _, p := range list {
		begin := strings.Index(p.Text, beginPatch)
		if begin < 0 && p.Text != "" && steer.Word(p.Text).Known() {
			continue // it is no patch
		}
		if begin < 0 {
			err = cmp.Or(err, error(refusal.New(refusal.Malformed, "the shell's line applies a patch that it does not have")))
			continue
		}
		paths, wrong := filesOf(patchPaths(p.Text[begin:]))
		err = cmp.Or(err, wrong)
		for _, path := range paths {
			if !steer.Word(path).Known() {
				err = cmp.Or(err, error(refusal.New(refusal.Malformed, "the shell would expand a path in the call's patch")))
				continue
			}
			out, wrong = below(out, path, p.Dirs)
			err = cmp.Or(err, wrong)
		}
	}
	if begin := strings.Index(line, beginPatch); err != nil && begin >= 0 {
		out = guessed(out, line[begin:], at)
	}
	return out, err
}

// guessed adds the files that the headers in a text would name.
func guessed(list []string, text string, at shell.Place) []string {
	dirs := slices.Clone(at.Also)
	if at.Dir != "" {
		dirs = with(dirs, at.Dir)
	}
	for _, path := range patchPaths(text) {
		if path = strings.TrimRight(path, `'"`); path == "" { // the end of a quoted word
			continue
		}
		list, _ = below(list, path, dirs) // the call is refused or warned of already
	}
	return list
}

// below adds a path: itself if it is absolute, else below each directory. It adds nothing that it refuses.
func below(list []string, path string, dirs []string) ([]string, error) {
	switch {
	case len(list)+len(dirs) > maxFiles:
		return list, refusal.New(refusal.OverLimit, "the call changes more than %d files", maxFiles)
	case strings.ContainsRune(path, 0):
		return list, refusal.New(refusal.Malformed, "a path of the call has a NUL, which no path can have")
	case strings.HasPrefix(path, "/"):
		list = append(list, path)
	case len(dirs) == 0:
		return list, refusal.New(refusal.Malformed, "the call names a relative path, and its directory is not known")
	default:
		for _, dir := range dirs {
			list = append(list, dir+"/"+path) // not Join, which removes ".." before links are resolved
		}
	}
	return list, nil
}
