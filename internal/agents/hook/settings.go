package hook

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// tree finds the hooks in an agent's settings.
type tree struct {
	site
	source
	root   []member
	hooks  member // of the root, if hasHooks
	events []member
	before member // the event, of the events, if hasBefore
	groups []span

	hasHooks, hasBefore bool
}

// readTree reads settings. Text that is not a JSON object is Malformed. An object whose hooks have another form is a
// Conflict.
func (l site) readTree(text []byte) (tree, error) {
	t := tree{site: l, source: l.comments.read(text)}
	text = t.plain
	if !jsontext.Value(text).IsValid() {
		return t, refusal.New(refusal.Malformed, "it is not valid JSON").WithHint("correct it first: nothing was changed")
	}
	var ok bool
	if t.root, ok = members(text, whole(text)); !ok {
		return t, refusal.New(refusal.Malformed, "it is not a JSON object").WithHint("correct it first: nothing was changed")
	}
	other := refusal.New(refusal.Conflict, "its hooks have a form that is not known").
		WithHint("add the hook by hand, or correct it: nothing was changed")
	if t.hooks, t.hasHooks = memberOf(t.root, "hooks"); !t.hasHooks {
		return t, nil
	}
	if t.events, ok = members(text, t.hooks.value); !ok {
		return t, other
	}
	if t.before, t.hasBefore = memberOf(t.events, t.event); !t.hasBefore {
		return t, nil
	}
	if t.groups, ok = elements(text, t.before.value); !ok {
		return t, other
	}
	return t, nil
}

// place is the position of a hook in its entry.
type place struct {
	group int
	hook  int
	of    []span // the entry's hooks
}

// ours returns the places of gated's hooks.
func (t tree) ours() []place {
	var out []place
	if t.flat {
		for i := range t.groups {
			if t.isOurs(t.command(t.groups[i])) {
				out = append(out, place{i, i, t.groups})
			}
		}
		return out
	}
	for g, at := range t.groups {
		group, _ := members(t.plain, at)
		list, ok := memberOf(group, "hooks")
		if !ok {
			continue
		}
		hooks, _ := elements(t.plain, list.value)
		for i, at := range hooks {
			if t.isOurs(t.command(at)) {
				out = append(out, place{g, i, hooks})
			}
		}
	}
	return out
}

// command returns the line of a hook.
func (t tree) command(at span) string {
	var c map[string]jsontext.Value
	var line string
	if json.Unmarshal(t.plain[at.start:at.end], &c) != nil || json.Unmarshal(c[t.line], &line) != nil {
		return ""
	}
	return line
}

// as reports whether a hook and its entry are exactly as wanted, with or without other hooks beside it.
func (t tree) as(p place, want jsontext.Value) bool {
	var group, hook, wanted map[string]any
	at, of := p.of[p.hook], t.groups[p.group]
	if json.Unmarshal(want, &wanted) != nil || json.Unmarshal(t.plain[at.start:at.end], &hook) != nil ||
		json.Unmarshal(t.plain[of.start:of.end], &group) != nil {
		return false
	}
	if t.flat {
		return reflect.DeepEqual(hook, wanted)
	}
	hooks, _ := wanted["hooks"].([]any)
	delete(wanted, "hooks")
	delete(group, "hooks")
	return len(hooks) == 1 && reflect.DeepEqual(any(hook), hooks[0]) && reflect.DeepEqual(group, wanted)
}

// without removes one hook, and what gated made for it and is then empty.
func (t tree) without(p place) []byte {
	if len(p.of) > 1 {
		return t.cut(p.of, p.hook)
	}
	if len(t.groups) > 1 {
		return t.cut(t.groups, p.group)
	}
	if text, ok := t.drop(t.before.value, t.groups[p.group]); ok {
		return text
	}
	return t.cutMember(t.hooks.value, t.events, t.event, func() []byte {
		return t.cutMember(whole(t.plain), t.root, "hooks", func() []byte {
			return replaced(t.text, whole(t.plain), "{}")
		})
	})
}

// cutMember removes a member of an object. If it is the only one and the object was made for it, it returns what alone
// returns.
func (s source) cutMember(object span, list []member, name string, alone func() []byte) []byte {
	i := slices.IndexFunc(list, func(m member) bool { return m.name == name })
	if len(list) > 1 {
		return s.cut(spans(list), i)
	}
	if text, ok := s.drop(object, list[i].span); ok {
		return text
	}
	return alone()
}

// with adds an entry.
func (t tree) with(group jsontext.Value) ([]byte, error) {
	list := bytes.Join([][]byte{[]byte("["), group, []byte("]")}, nil)
	switch {
	case t.hasBefore:
		return t.add(t.before.value, t.groups, "", group)
	case t.hasHooks:
		return t.add(t.hooks.value, spans(t.events), t.event, list)
	}
	events, err := json.Marshal(map[string]jsontext.Value{t.event: list})
	if err != nil {
		return nil, err
	}
	return t.add(whole(t.plain), spans(t.root), "hooks", events)
}

// installed returns settings that ask gated exactly once, as wanted. fresh says that they did not ask before.
func (l site) installed(text []byte, want jsontext.Value) (out []byte, fresh bool, err error) {
	t, err := l.readTree(text)
	if err != nil {
		return nil, false, err
	}
	ours := t.ours()
	if len(ours) == 1 && t.as(ours[0], want) {
		return text, false, nil
	}
	cleaned, err := l.uninstalled(text)
	if err != nil {
		return nil, false, err
	}
	if t, err = l.readTree(cleaned); err != nil {
		return nil, false, err
	}
	t.made = string(cleaned) == l.base && (l.fresh || l.comments.read(text).opens())
	out, err = t.with(want)
	if err == nil && !jsontext.Value(l.comments.read(out).plain).IsValid() {
		err = errors.New("the edited settings would not be JSON")
	}
	return out, len(ours) == 0, err
}

// uninstalled returns settings that do not ask gated.
func (l site) uninstalled(text []byte) ([]byte, error) {
	for {
		t, err := l.readTree(text)
		if err != nil {
			return nil, err
		}
		ours := t.ours()
		if len(ours) == 0 {
			return text, nil
		}
		text = t.without(ours[0])
	}
}

// called returns the line by which the settings call gated; empty if they do not. If there are several, one that blocks
// counts.
func (t tree) called() called {
	var out called
	for i, p := range t.ours() {
		read := readLine(t.command(p.of[p.hook]))
		if i == 0 || read.onFailure == string(Block) && out.onFailure != string(Block) {
			out = read
		}
	}
	return out
}

// isOurs reports whether a command line runs this hook, as "gated hook pre-tool-use", at any path of gated.
func (l site) isOurs(line string) bool {
	program, rest := firstWord(line)
	words := strings.Fields(rest)
	return strings.HasPrefix(filepath.Base(program), "gated") && len(words) >= 2 && words[0] == "hook" && words[1] == cmp.Or(l.sub, "pre-tool-use")
}

// firstWord splits off the first word of a line for sh, as Quote writes it.
func firstWord(line string) (word, rest string) {
	var b strings.Builder
	for quoted := false; line != ""; line = line[1:] {
		switch c := line[0]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
			b.WriteByte(c)
		case c == ' ' || c == '\t':
			return b.String(), line
		case c == '\\' && len(line) > 1:
			line = line[1:]
			b.WriteByte(line[0])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// settingsFile is a file and its state when it was read.
type settingsFile struct {
	path    string
	content []byte
	info    fs.FileInfo // nil: no file
}

// readSettings reads a file. It follows no symbolic link, because that could lead to another user's settings.
func readSettings(path string) (settingsFile, error) {
	s := settingsFile{path: path}
	for _, p := range []string{filepath.Dir(path), path} {
		info, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return s, refusal.New(refusal.Conflict, "%s is a symbolic link", op.Shown(p)).
				WithHint("name the file that it leads to with --agent-settings")
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return s, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	if !info.Mode().IsRegular() {
		return s, refusal.New(refusal.Conflict, "%s is no regular file", op.Shown(path))
	}
	s.info = info
	if s.content, err = readAll(f, maxSettings, "it"); err != nil {
		return s, named(path, err)
	}
	return s, nil
}

// replace replaces the file's content in one step, and keeps its mode and owner. If the file is no longer what was
// read, it is a Conflict.
func (s settingsFile) replace(content []byte) error {
	if s.info == nil {
		return s.create(content)
	}
	next, err := s.beside(s.path, content)
	if err != nil {
		return err
	}
	if err = s.unchanged(); err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// create makes a new file, and its directory.
func (s settingsFile) create(content []byte) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	next, err := s.beside(s.path, content)
	if err != nil {
		return err
	}
	err = os.Link(next, s.path) // a link never replaces another file
	if errors.Is(err, fs.ErrExist) {
		err = s.meanwhile()
	}
	return errors.Join(err, os.Remove(next))
}

// remove deletes the file if it is still what was read.
func (s settingsFile) remove() error {
	if err := s.unchanged(); err != nil {
		return err
	}
	return os.Remove(s.path)
}

// removeAll deletes the file, and then those of its directories that a site's file has, if they are empty. It deletes no
// link to a directory.
func (s settingsFile) removeAll(l site) error {
	err := s.remove()
	if !strings.HasSuffix(s.path, "/"+l.file) {
		return err
	}
	gone := err
	for dir := filepath.Dir(l.file); gone == nil && dir != "."; dir = filepath.Dir(dir) {
		gone = syscall.Rmdir(strings.TrimSuffix(s.path, l.file) + dir) // it fails if the directory is not empty, or a link
	}
	return err
}

// copyTo writes the content that was read under another name, unless that has something.
func (s settingsFile) copyTo(path string) error {
	next, err := s.beside(path, s.content)
	if err != nil {
		return err
	}
	if err = os.Link(next, path); errors.Is(err, fs.ErrExist) { // a link never replaces another file
		err = nil
	}
	return errors.Join(err, os.Remove(next))
}

// unchanged is a refusal if the file changed since it was read.
func (s settingsFile) unchanged() error {
	now, err := readSettings(s.path)
	if err != nil {
		return err
	}
	if now.info == nil || !os.SameFile(now.info, s.info) || now.info.Mode() != s.info.Mode() || !bytes.Equal(now.content, s.content) {
		return s.meanwhile()
	}
	return nil
}

func (s settingsFile) meanwhile() error {
	return refusal.New(refusal.Conflict, "%s was changed meanwhile", op.Shown(s.path)).WithHint("do it again")
}

// beside writes content to a new file in a path's directory, with the mode and owner of the file that was read.
func (s settingsFile) beside(path string, content []byte) (name string, err error) {
	return beside(path, content, s.dress)
}

// beside writes content to a new file in a path's directory, and dress sets its mode. It returns the name. The file is
// on disk then, and can be moved to the path.
func beside(path string, content []byte, dress func(*os.File) error) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".gated-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	err = errors.Join(err, dress(f), f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// move moves a file from beside a path to the path, in one step. If that fails, it deletes the file.
func move(next, path string) error {
	if err := os.Rename(next, path); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// dress gives a file the mode and owner of the file that was read.
func (s settingsFile) dress(f *os.File) error {
	if s.info == nil {
		return f.Chmod(0o644)
	}
	if st, ok := s.info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(s.info.Mode().Perm())
}
