package hook

import (
	"cmp"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"gated/internal/agents/shell"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxFiles is how many files one call may change. A patch of more is not judged.
const maxFiles = 1000

// wanted reports whether a member of a tool's input matters to one of the products.
func wanted(member string) bool { return slices.Contains(wantedMembers(), member) }

var wantedMembers = sync.OnceValue(func() []string {
	out := []string{shellMember, workdirMember}
	for _, d := range Dialects() {
		f := d.form()
		out = append(out, f.at...)
		for _, e := range f.tools {
			out = append(append(out, e.members...), e.patch)
		}
	}
	return out
})

// The members of a tool's input with a shell's line, and with the directory in which it runs.
const (
	shellMember   = "command"
	workdirMember = "workdir"
)

// check refuses a call whose tool is not known, and one that comes too late.
func (f form) check(c rawCall, by Dialect) error {
	ours := func(event string) bool { return strings.EqualFold(event, f.event) }
	switch {
	case len(c.tools) == 0 || slices.Contains(c.tools, ""):
		return refusal.New(refusal.Malformed, "the call of %s has no %s", by.Product(), f.name)
	case len(c.events) > 0 && !slices.ContainsFunc(c.events, ours):
		return refusal.New(refusal.Malformed, "the call comes with the event %s, and only %s can be stopped",
			op.Shown(bounded(c.events[0], maxQuoted)), f.event)
	}
	return nil
}

// paths returns the files that a call would change. If it cannot tell all of them, it returns the others and why. A
// member that stands twice names files by each of its texts.
func (f form) paths(c rawCall) (out []string, err error) {
	for _, tool := range c.tools {
		found, wrong := f.pathsOf(c, tool)
		out, err = append(out, found...), cmp.Or(err, wrong)
	}
	if len(out) > 0 || f.asks(c.tools) {
		err = cmp.Or(err, f.doubt(c, strings.Join(c.tools, " "), f.name))
	}
	for _, path := range out {
		err = cmp.Or(err, f.doubt(c, path))
	}
	return out, err
}

// asks reports whether one of the tools writes, or may do so by its shell.
func (f form) asks(tools []string) bool {
	return slices.ContainsFunc(tools, func(tool string) bool {
		_, ours := f.tools[tool]
		return ours || slices.Contains(f.shells, tool) || strings.ContainsRune(tool, utf8.RuneError)
	})
}

// pathsOf is paths for one tool.
func (f form) pathsOf(c rawCall, tool string) ([]string, error) {
	e, ours := f.tools[tool]
	switch {
	case slices.Contains(f.shells, tool):
		return f.shellPaths(c)
	case !ours:
		return nil, nil
	}
	named, err := f.named(c, e)
	if f.loose {
		for i, path := range named {
			named[i] = strings.ReplaceAll(path, "\x00", "")
			if rest, at := strings.CutPrefix(named[i], "@"); at {
				named = append(named, strings.TrimLeft(rest, "/"))
			}
		}
	}
	out, wrong := f.absolute(c, named)
	err = cmp.Or(err, wrong)
	if slices.Contains(f.seeks, tool) {
		found, wrong := f.sought(c, named)
		out, err = append(out, found...), cmp.Or(err, wrong)
	}
	return out, err
}

// shellPaths returns the files that a shell's lines change by patches.
func (f form) shellPaths(c rawCall) (out []string, err error) {
	lines := c.input[shellMember]
	if len(lines) == 0 {
		return nil, refusal.New(refusal.Malformed, "the call's %s has no %s", f.input, shellMember)
	}
	for _, line := range lines {
		found, wrong := f.patched(c, line)
		out, err = append(out, found...), cmp.Or(err, wrong)
	}
	if len(out) > 0 {
		err = cmp.Or(err, f.doubt(c, "", shellMember, workdirMember, dirMember))
	}
	return out, err
}

// patched returns the files that patches in a shell's line change. The shell may run below each of the call's directories,
// and in its workdir.
func (f form) patched(c rawCall, line string) ([]string, error) {
	bases, err := f.bases(c)
	if err != nil {
		return nil, err
	}
	dirs := slices.Clone(bases)
	for _, workdir := range c.input[workdirMember] {
		if filepath.IsAbs(workdir) {
			dirs = with(dirs, workdir)
			continue
		}
		for _, base := range bases {
			dirs = with(dirs, filepath.Join(base, workdir))
		}
	}
	if len(dirs) == 0 {
		return parseShell(line, shell.Place{})
	}
	last := len(dirs) - 1
	return parseShell(line, shell.Place{Dir: dirs[last], Also: dirs[:last]})
}

func with(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// named returns the paths that an edit names.
func (f form) named(c rawCall, e edit) (out []string, err error) {
	patches := slices.Clone(c.input[e.patch])
	if e.patch != "" || f.inside {
		patches = append(patches, c.texts...)
	}
	for _, patch := range patches {
		found, wrong := parsePatch(patch)
		out, err = append(out, found...), cmp.Or(err, wrong)
	}
	if len(patches) > 1 {
		err = cmp.Or(err, error(refusal.New(refusal.Malformed, "the call has its patch twice, and they differ")))
	}
	if len(patches) == 0 {
		for _, member := range e.members {
			for _, path := range c.input[member] {
				if path != "" {
					out = append(out, path)
				}
			}
			err = cmp.Or(err, f.doubt(c, "", member))
		}
	}
	if len(out) == 0 && err == nil {
		wanted := strings.Join(e.members, " or ")
		if wanted == "" {
			wanted = e.patch
		}
		err = refusal.New(refusal.Malformed, "the call's %s has no %s", f.input, wanted)
	}
	return out, cmp.Or(err, c.unread)
}

// absolute makes a call's paths absolute. A relative path may be below each directory that the call gives.
func (f form) absolute(c rawCall, named []string) ([]string, error) {
	bases, err := f.bases(c)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, text := range named {
		path, wrong := f.local(text)
		if wrong == nil {
			out, wrong = below(out, path, bases)
		}
		if wrong == nil && !filepath.IsAbs(path) {
			wrong = f.doubt(c, "", dirMember)
		}
		err = cmp.Or(err, wrong)
	}
	return out, err
}

// bases returns the directories that a relative path of a call may be below.
func (f form) bases(c rawCall) ([]string, error) {
	dirs := c.dirs
	if len(dirs) == 0 {
		dirs = c.roots
	}
	var out []string
	for _, text := range dirs {
		dir, err := f.local(text)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(dir, "/") {
			out = with(out, dir)
		}
	}
	return out, nil
}

// isURI reports whether a text is a URI: of a file, or with an authority.
func isURI(text string) bool {
	scheme, rest, ok := strings.Cut(text, ":")
	return ok && (strings.EqualFold(scheme, "file") || strings.HasPrefix(rest, "//"))
}

// local returns the path that a text means: itself, or that of a file: URI where the product has those.
func (f form) local(text string) (string, error) {
	if strings.ContainsRune(text, 0) {
		return "", refusal.New(refusal.Malformed, "a path of the call has a NUL, which no path can have")
	}
	if !f.uris || !isURI(text) {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/") ||
		u.RawQuery != "" || u.Fragment != "" || strings.ContainsRune(u.Path, 0) {
		return "", refusal.New(refusal.Malformed, "the call has the URI %s, which names no file of this host", op.Shown(text))
	}
	return u.Path, nil
}

// shellDir returns the directory in which a call's shell would run.
func (f form) shellDir(c rawCall) string {
	dir := ""
	if bases, err := f.bases(c); err == nil && len(bases) > 0 {
		dir = bases[0]
	}
	for _, member := range f.at {
		for _, to := range c.input[member] {
			switch {
			case filepath.IsAbs(to):
				dir = to
			case to != "" && dir != "":
				dir = filepath.Join(dir, to)
			}
		}
	}
	return dir
}

// inner reads a tool's input that is JSON inside a string.
func (c *rawCall) inner(f form) {
	if !f.inside {
		return
	}
	var texts []string
	for _, text := range c.texts {
		if !strings.HasPrefix(strings.TrimSpace(text), "{") {
			texts = append(texts, text)
			continue
		}
		in := heard{inputs: map[string]rawInput{f.input: {members: c.input}}}
		d := lenient(strings.NewReader(text))
		err := in.readInput(d, f.input)
		if err == nil {
			_, err = d.ReadToken()
		}
		if !errors.Is(err, io.EOF) {
			c.unread = cmp.Or(c.unread, error(refusal.New(refusal.Malformed, "the call's %s is no JSON to its end", f.input)))
		}
		c.blurred = c.blurred || in.blurred
	}
	c.texts = texts
}
