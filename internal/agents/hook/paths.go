package hook

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/agents/shell"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxFiles is how many files one call may change. A patch of more is not judged.
const maxFiles = 1000

// wants reports whether a member of a tool's input matters.
func (f form) wants(member string) bool {
	if len(f.runs) > 0 && (member == shellMember || member == workdirMember || slices.Contains(f.at, member)) {
		return true
	}
	for _, e := range f.tools {
		if e.patch == member || slices.Contains(e.members, member) {
			return true
		}
	}
	return false
}

// The members of a tool's input with a shell's line, and with the directory in which it runs.
const (
	shellMember   = "command"
	workdirMember = "workdir"
)

// check refuses a call that this dialect does not read, by the name of the product that makes such calls.
func (f form) check(c rawCall, d Dialect) error {
	if by := speaker(c, f, d); by != nil && by.Product() != d.Product() {
		return refusal.New(refusal.Malformed, "the call is one of %s, and this hook reads those of %s", by.Product(), d.Product()).
			WithHint("gated hook install --for %s", by.Name())
	}
	switch {
	case c.tool == "":
		return refusal.New(refusal.Malformed, "the call of %s has no %s", d.Product(), f.name)
	case c.event != "" && c.event != f.event:
		return refusal.New(refusal.Malformed, "the call comes with the event %s, and only %s can be stopped",
			op.Shown(c.event), f.event)
	}
	return nil
}

// speaker returns the dialect of a call: by a member that only one product writes, by the event, or by a tool that is
// another product's. It returns nil if nothing tells.
func speaker(c rawCall, f form, d Dialect) Dialect {
	if c.by != nil {
		return c.by
	}
	_, ours := f.tools[c.tool]
	if (c.event == "" || c.event == f.event) && (ours || slices.Contains(f.shells, c.tool)) {
		return nil
	}
	for _, other := range Dialects() {
		o := other.form()
		tool := c.tool
		if o.name != f.name {
			tool = c.alien
		}
		if _, theirs := o.tools[tool]; theirs && (o.name == f.name || o.name == toolName) && (c.event == "" || c.event == o.event) {
			return other
		}
	}
	for _, other := range Dialects() {
		if event := other.form().event; c.event != "" && c.event != f.event && c.event == event {
			return other
		}
	}
	return nil
}

// paths returns the files that a call would change. If it cannot tell all of them, it returns the others and why.
func (f form) paths(c rawCall) ([]string, error) {
	e, ours := f.tools[c.tool]
	switch {
	case slices.Contains(f.shells, c.tool):
		line, there := c.input[shellMember]
		if !there {
			return nil, refusal.New(refusal.Malformed, "the call's %s has no %s", f.input, shellMember)
		}
		return f.patched(c, line)
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
	if slices.Contains(f.seeks, c.tool) {
		found, wrong := f.sought(c, named)
		out, err = append(out, found...), cmp.Or(err, wrong)
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
	var dirs []string
	workdir := c.input[workdirMember]
	for _, base := range bases {
		dirs = with(dirs, base)
	}
	for _, base := range bases {
		if workdir != "" && !filepath.IsAbs(workdir) {
			dirs = with(dirs, filepath.Join(base, workdir))
		}
	}
	if filepath.IsAbs(workdir) {
		dirs = with(dirs, workdir)
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
func (f form) named(c rawCall, e edit) ([]string, error) {
	if c.text != "" && (e.patch != "" || f.inside) {
		return parsePatch(c.text)
	}
	if patch, there := c.input[e.patch]; there && e.patch != "" {
		return parsePatch(patch)
	}
	var out []string
	for _, member := range e.members {
		if path := c.input[member]; path != "" {
			out = append(out, path)
		}
	}
	if len(out) == 0 {
		wanted := strings.Join(e.members, " or ")
		if wanted == "" {
			wanted = e.patch
		}
		return nil, refusal.New(refusal.Malformed, "the call's %s has no %s", f.input, wanted)
	}
	return out, nil
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
		err = cmp.Or(err, wrong)
	}
	return out, err
}

// bases returns the directories that a relative path of a call may be below.
func (f form) bases(c rawCall) ([]string, error) {
	dirs := []string{c.dir}
	if c.dir == "" {
		dirs = c.roots
	}
	var out []string
	for _, text := range dirs {
		dir, err := f.local(text)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(dir, "/") {
			out = append(out, dir)
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
		switch to := c.input[member]; {
		case filepath.IsAbs(to):
			dir = to
		case to != "" && dir != "":
			dir = filepath.Join(dir, to)
		}
	}
	return dir
}

// inner reads a tool's input that is JSON inside a string.
func (c *rawCall) inner(f form) error {
	if !f.inside || !strings.HasPrefix(strings.TrimSpace(c.text), "{") {
		return nil
	}
	d := jsontext.NewDecoder(strings.NewReader(c.text))
	c.text = ""
	return alone(d, func(name string) error { return c.readWord(d, name, f) })
}
