package hook

import (
	"regexp"
	"strings"
	"unicode"

	"gated/internal/base/op"
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

// parsePatch returns the paths that a tool's patch names. Malformed if it is no patch, or if it names no file.
func parsePatch(text string) ([]string, error) {
	at := strings.Index(text, beginPatch)
	if at < 0 {
		return nil, refusal.New(refusal.Malformed, "the call's patch has no line %q", beginPatch)
	}
	return filesOf(patchPaths(text[at:]))
}

// filesOf refuses a patch that names no file, or one without a name.
func filesOf(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, refusal.New(refusal.Malformed, "the call's patch names no file")
	}
	for _, p := range paths {
		if p == "" {
			return nil, refusal.New(refusal.Malformed, "the call's patch has a file without a name")
		}
	}
	return paths, nil
}

var (
	// applied finds the call of apply_patch in a shell's line.
	applied = regexp.MustCompile(`\bapply_?patch\b`)
	// cd finds the changes of the directory in a shell's line.
	cd = regexp.MustCompile(`(?:^|[\n;&|({!]|\b(?:if|then|else|elif|do|while|until|time|builtin|command)[ \t])[ \t]*` +
		`(?:cd|pushd)[ \t]+(?:-[PLe@]+[ \t]+)*(?:--[ \t]+)?('[^'\n]*'|"[^"\n]*"|[^\s;&|)'"]+)`)
	// quotedHere finds a here-document whose text the shell does not expand.
	quotedHere = regexp.MustCompile(`<<-?[ \t]*['"\\]`)
)

// shellPatch is a patch in a shell's line.
type shellPatch struct {
	paths []string
	dirs  []string // that the line changes to before it, one after the other
}

// parseShell returns the patches that a shell's line applies; nothing for any other line. It knows a here-document and
// a quoted word, after any number of cd. Malformed if it cannot tell the paths: the shell would make them from others.
func parseShell(line string) (shellPatch, error) {
	at := strings.Index(line, beginPatch)
	if at < 0 || !applied.MatchString(line) {
		return shellPatch{}, nil
	}
	var out shellPatch
	var err error
	if out.paths, err = filesOf(patchPaths(line[at:])); err != nil {
		return shellPatch{}, err
	}
	asIs := quotedHere.MatchString(line[:at])
	for i, p := range out.paths {
		p = strings.TrimRight(p, `'"`) // the end of a quoted word
		if out.paths[i] = p; !asIs && strings.ContainsAny(p, "$`\\") {
			return shellPatch{}, expanded(p)
		}
	}
	for _, m := range cd.FindAllStringSubmatch(line[:at], -1) {
		dir := strings.Trim(m[1], `'"`)
		if m[1][0] != '\'' && strings.ContainsAny(dir, "$`\\~*?[") || dir == "-" {
			return shellPatch{}, expanded(dir)
		}
		out.dirs = append(out.dirs, dir)
	}
	return out, nil
}

func expanded(word string) error {
	return refusal.New(refusal.Malformed, "the shell would expand %s in the call's patch", op.Shown(word))
}
