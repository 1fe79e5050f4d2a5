package command

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/driver/command/catalogue"
)

func (l *look) observed() op.Observed {
	o := op.Observed{Target: l.target, Present: true, Incarnation: l.incarnation(), Spec: l.spec(), Backend: "command"}
	if l.argv == nil {
		o.Fingerprint = op.FingerprintOf([]byte("command\n" + string(o.Incarnation)))
		o.Facts = append(l.declared(), l.machine()...)
		return o
	}
	o.Fingerprint = l.fingerprint()
	o.Facts = append([]op.Fact{{Name: "runs", Text: words(l.argv)}}, l.machine()...)
	o.Facts = append(o.Facts, l.probed()...)
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

// fingerprint covers the words of the run, with paths resolved, and the whole output of the
// probe.
func (l *look) fingerprint() op.Fingerprint {
	argv := make([]any, len(l.argv))
	for i, w := range l.argv {
		argv[i] = w
	}
	all := op.Params{"argv": argv}
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
