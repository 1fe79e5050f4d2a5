package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command/catalogue"
)

// look is the result of a look at an entry: its user and its programs, with copies of them.
type look struct {
	target  op.Target
	entry   catalogue.Entry
	as      account
	program *program
	probe   *program // nil if the entry has no probe

	argv   []string  // the words of the run; nil if there is no step
	dirs   []op.Fact // which directories they name, and in which they run: another one can get the name
	answer *answer   // of the probe; nil if there is no probe or no step

	giveBack func() // gives back the room of the copies; nil without copies
}

// answer is the output of a probe.
type answer struct {
	status int
	output []byte
}

func (l *look) close() {
	l.program.close()
	l.probe.close()
	if l.giveBack != nil {
		l.giveBack()
	}
}

// Observe looks at an entry. For a step it checks the parameters and runs the probe, and the
// fingerprint covers both. Refusals are BadParams, NotAllowed for an entry that would run as
// gated's own user, and Unavailable for an entry that cannot run.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	seen, err := d.look(ctx, l, &d.looks)
	if err != nil {
		return op.Observed{}, err
	}
	if seen == nil {
		return op.Observed{Target: l.Target, Running: "absent"}, nil
	}
	defer seen.close()
	return seen.observed(), nil
}

// look is Observe that also returns the look, or nil if the catalogue does not have the entry.
// The copies take their room from room. The caller closes the look.
func (d *Driver) look(ctx context.Context, l op.Look, room *copies) (_ *look, err error) {
	if l.Target.Kind != d.Kind() {
		return nil, refusal.New(refusal.UnknownTarget, "%s is no command", l.Target)
	}
	e, ok := d.cfg.Entries[l.Target.Name]
	if !ok {
		return nil, nil
	}
	var values map[string]string
	if l.Op == op.Run {
		if values, err = read(e, l.Params); err != nil {
			return nil, err
		}
	}
	seen := &look{target: l.Target, entry: e}
	defer func() {
		if err != nil {
			seen.close()
		}
	}()
	if seen.as, err = d.accountOf(e.User); err != nil {
		return nil, err
	}
	if err = d.open(ctx, seen, l, room); err != nil {
		return nil, err
	}
	if err = checkDir(e); err != nil {
		return nil, err
	}
	if l.Op != op.Run {
		return seen, nil
	}
	if seen.argv, err = catalogue.Fill(e.Argv, values); err != nil {
		return nil, err
	}
	if seen.dirs, err = named(e, values); err != nil {
		return nil, err
	}
	if err = d.ask(ctx, seen, values); err != nil {
		return nil, err
	}
	return seen, nil
}

// open reads the programs of a look. For a step it copies them, because the copies are signed
// and run. Otherwise it only needs their digests, which may be remembered ones.
func (d *Driver) open(ctx context.Context, seen *look, l op.Look, all *copies) (err error) {
	paths := []string{seen.entry.Argv[0]}
	if seen.entry.Probe != nil {
		paths = append(paths, seen.entry.Probe[0])
	}
	read := d.digests.hashed
	if l.Op == op.Run {
		var need room
		for _, path := range paths {
			n, err := weigh(path)
			if err != nil {
				return err
			}
			need += room(n)
		}
		if seen.giveBack, err = all.take(ctx, int64(need)); err != nil {
			return err
		}
		read = need.copied
	}
	if seen.program, err = executable(paths[0], read); err == nil && len(paths) > 1 {
		seen.probe, err = executable(paths[1], read)
	}
	return err
}

func checkDir(e catalogue.Entry) error {
	if info, err := os.Stat(directory(e)); err != nil || !info.IsDir() {
		return refusal.New(refusal.Unavailable, "its directory %s is not there", directory(e)).
			WithHint("make it, or correct dir in gated.yaml")
	}
	return nil
}

// read checks parameters, and resolves paths to their end.
func read(e catalogue.Entry, given op.Params) (map[string]string, error) {
	values, err := catalogue.Read(e.Params, given)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if p := e.Params[name]; p.Type == catalogue.Path {
			if values[name], err = below(p.Below, values[name]); err != nil {
				r := *refusal.As(err)
				r.Detail = name + ": " + r.Detail
				return nil, &r
			}
		}
	}
	return values, nil
}

// named identifies the directories that parameters name, or in which the files are that they name, and the one in which the command
// runs. A file may be another one: programs replace their files. The time at which a directory was made is in it, because a file system
// gives a number again.
func named(e catalogue.Entry, values map[string]string) (dirs []op.Fact, err error) {
	add := func(is, path string) (found bool) {
		text, failed := placed(path)
		if text != "" {
			dirs = append(dirs, op.Fact{Name: "path", Text: is + " " + text})
		}
		err = errors.Join(err, failed)
		return text != "" || failed != nil
	}
	if e.Dir != "" {
		add("dir is", e.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if e.Params[name].Type == catalogue.Path && !add(name+" is", values[name]) {
			add(name+" is in", filepath.Dir(values[name]))
		}
	}
	return dirs, err
}

// placed identifies a directory in words; "" if there is none at the path.
func placed(path string) (string, error) {
	var at unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_SYNC_AS_STAT, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_BTIME, &at)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), err == nil && at.Mode&unix.S_IFMT != unix.S_IFDIR:
		return "", nil
	case err != nil:
		return "", refusal.New(refusal.Unavailable, "%s cannot be looked at: %v", path, err)
	}
	text := fmt.Sprintf("the directory with inode %d of device %d", at.Ino, unix.Mkdev(at.Dev_major, at.Dev_minor))
	if at.Mask&unix.STATX_BTIME != 0 {
		text += ", made " + time.Unix(at.Btime.Sec, int64(at.Btime.Nsec)).UTC().Format(time.RFC3339Nano)
	}
	return text, nil
}

// again refuses a step if one of its paths leads elsewhere than the look saw. The probe and the permit took their time, and the
// owner of a directory may have put a link or another directory in its place.
func (l *look) again(given op.Params) error {
	values, err := read(l.entry, given)
	if err != nil {
		return refusal.New(refusal.StaleTarget, "a path of %s changed while the step was under way: %v", l.target, err)
	}
	argv, err := catalogue.Fill(l.entry.Argv, values)
	if err != nil {
		return err
	}
	dirs, err := named(l.entry, values)
	switch {
	case err == nil && !slices.Equal(argv, l.argv):
		return refusal.New(refusal.StaleTarget, "a path of %s leads elsewhere since the step was looked at: it would run %s", l.target, words(argv))
	case err == nil && !slices.Equal(dirs, l.dirs):
		return refusal.New(refusal.StaleTarget, "a path of %s names another directory since the step was looked at", l.target).
			WithHint("whoever makes a directory anew, such as a probe, must not do so between the look and the run")
	}
	return err
}

// ask runs the probe of a step's look. It refuses a probe that does not end by itself or prints
// too much, because an operator must not sign output that no screen shows.
func (d *Driver) ask(ctx context.Context, l *look, values map[string]string) error {
	if l.probe == nil {
		return nil
	}
	words, err := catalogue.Fill(l.entry.Probe, values)
	if err != nil {
		return err
	}
	e := d.run(ctx, job{program: l.probe, argv: words, env: l.entry.Env, dir: l.entry.Dir, as: l.as,
		timeout: l.entry.ProbeTimeout, limit: l.entry.Output})
	switch {
	case e.err != nil:
		return refusal.New(refusal.Unavailable, "the probe of %s cannot be run: %v", l.target, e.err)
	case e.cut != "":
		return refusal.New(refusal.Unavailable, "the probe of %s %s", l.target, e.cut).
			WithHint("probe_timeout in gated.yaml says how long it has")
	case e.signal != 0:
		return refusal.New(refusal.Unavailable, "the probe of %s was ended by %s", l.target, e.signal)
	case e.printed.dropped > 0:
		return refusal.New(refusal.Unavailable, "the probe of %s prints more than %d bytes", l.target, l.entry.Output).
			WithHint("output in gated.yaml is the limit; or let the probe count instead of list")
	}
	l.answer = &answer{e.status, e.printed.bytes()}
	return nil
}

// List looks at every entry and runs nothing. It lists an entry that cannot run with the reason
// and without an incarnation.
func (d *Driver) List(ctx context.Context) ([]op.Observed, error) {
	out := []op.Observed{}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Entries)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t := op.Target{Kind: op.KindCommand, Name: name}
		o, err := d.Observe(ctx, op.At(t))
		if err != nil {
			o = op.Observed{Target: t, Present: true, Running: unknown, Facts: []op.Fact{{Name: "error", Text: detail(err)}}}
		}
		out = append(out, o)
	}
	return out, nil
}

// unknown is the Running of an entry that cannot run, as in the list of guests.
const unknown = "unknown"

func detail(err error) string {
	if r := refusal.As(err); r.Code != refusal.Internal {
		return r.Detail
	}
	return err.Error()
}

func (l *look) observed() op.Observed {
	o := op.Observed{Target: l.target, Present: true, Incarnation: l.incarnation(), Spec: l.spec(), Backend: "command"}
	if l.argv == nil {
		o.Fingerprint = op.FingerprintOf([]byte("command\n" + string(o.Incarnation)))
		o.Facts = append(l.declared(), l.machine()...)
		return o
	}
	o.Fingerprint = l.fingerprint()
	o.Facts = slices.Concat([]op.Fact{{Name: "runs", Text: words(l.argv)}}, l.machine(), l.dirs, l.probed())
	o.Facts = append(o.Facts, op.Fact{Name: "undo", Text: "cannot be undone"})
	return o
}

// spec is the entry in the list of targets.
func (l *look) spec() op.Params {
	return op.Params{"program": l.entry.Argv[0], "user": l.as.Name, "benign": l.entry.Benign}
}

// incarnation covers everything that decides what runs, except the parameters. That is the
// content of every program that the driver starts, the entry, and its user's numbers.
func (l *look) incarnation() op.Incarnation {
	groups := make([]any, len(l.as.Groups))
	for i, g := range l.as.Groups {
		groups[i] = int64(g)
	}
	all := op.Params{"entry": map[string]any(l.entry.Text()), "program": l.program.text(), "probe": l.probe.text(),
		"uid": int64(l.as.UID), "gid": int64(l.as.GID), "groups": groups}
	return op.Incarnation("cmd:" + op.SHA256(all.Canonical()))
}

// fingerprint covers the words of the run, with paths resolved, the directories that they name, in which their files are and in which
// they run, and the whole output of the probe.
func (l *look) fingerprint() op.Fingerprint {
	argv := make([]any, len(l.argv))
	for i, w := range l.argv {
		argv[i] = w
	}
	dirs := make([]any, len(l.dirs))
	for i, dir := range l.dirs {
		dirs[i] = dir.Text
	}
	all := op.Params{"argv": argv, "dirs": dirs}
	if l.answer != nil {
		all["status"], all["output"] = int64(l.answer.status), op.SHA256(l.answer.output)
	}
	return op.FingerprintOf(all.Canonical())
}

// declared lists the parameters of an entry.
func (l *look) declared() []op.Fact {
	out := []op.Fact{{Name: "runs", Text: words(l.entry.Argv)}}
	for _, name := range slices.Sorted(maps.Keys(l.entry.Params)) {
		out = append(out, op.Fact{Name: "parameter " + name, Text: l.entry.Params[name].String()})
	}
	if l.entry.Benign {
		out = append(out, op.Fact{Name: "class", Text: "benign: runs unsigned, says the operator's catalogue"})
	}
	return out
}

// machine says which program runs where and as which user.
func (l *look) machine() []op.Fact {
	who := fmt.Sprintf("%s (uid %d)", l.as.Name, l.as.UID)
	if l.as.Own {
		who += ", gated's own user: single_user allows it"
	}
	out := []op.Fact{{Name: "as", Text: who}, {Name: "in", Text: directory(l.entry)}, {Name: "environment", Text: names(l.entry.Env)}}
	out = append(out, l.program.facts("program")...)
	if l.probe != nil {
		out = append(out, l.probe.facts("probe")...)
	} else {
		out = append(out, op.Fact{Name: "probe", Text: "none: nothing is known of what it would take"})
	}
	return append(out, op.Fact{Name: "at most", Text: l.entry.Timeout.String() + ", then it is ended"})
}

func directory(e catalogue.Entry) string {
	if e.Dir == "" {
		return "/"
	}
	return e.Dir
}

func names(env map[string]string) string {
	if len(env) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Sorted(maps.Keys(env)), ", ") + " and nothing else"
}

func (p *program) facts(name string) []op.Fact {
	text := p.path
	if filepath.Clean(p.real) != p.path {
		text += " -> " + op.Shown(p.real)
	}
	out := []op.Fact{{Name: name, Text: text + ", sha256:" + p.digest}}
	if p.reader != nil {
		out = append(out, op.Fact{Name: name + " is read by", Text: strings.TrimSpace(p.reader.path+" "+p.option) + ", sha256:" + p.reader.digest})
	}
	return out
}

// probed shows the whole output of the probe in one fact, because the signature covers all of
// it. A probe that prints more was refused when it ran.
func (l *look) probed() []op.Fact {
	if l.answer == nil {
		return nil
	}
	var out []op.Fact
	if l.answer.status != 0 {
		out = append(out, op.Fact{Name: "probe ended with", Text: "exit status " + strconv.Itoa(l.answer.status)})
	}
	said := strings.TrimRight(shown(l.answer.output), "\n")
	if said == "" {
		said = "nothing"
	}
	return append(out, op.Fact{Name: "probe says", Text: strings.ReplaceAll(said, "\t", "    ")})
}

// words writes an argv so that a reader can tell where each word ends.
func words(argv []string) string {
	out := make([]string, len(argv))
	for i, w := range argv {
		out[i] = word(w)
	}
	return strings.Join(out, " ")
}

// plain are the characters without a meaning for a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:@%,{}"

func word(w string) string {
	if w != "" && strings.Trim(w, plain) == "" {
		return w
	}
	if op.CheckText("", w) != nil {
		return strconv.QuoteToASCII(w)
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
