package hook

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/agents/steer"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Steering is no wall: a shell that hides what it runs is not refused.

// instead is a command of a call, and what to type in its place.
type instead struct {
	command string // what the shell would run, as far as it is known
	pattern string
	from    string
	line    string
}

// steer returns the commands of a call for which the gate has an operation, each line once. It asks the daemon only if
// the call's shell would run something. Its errors are *Failure.
func (h ToolHook) steer(ctx context.Context, w wish, end time.Time) ([]instead, error) {
	if len(w.runs) == 0 {
		return nil, nil
	}
	g := h.Guard
	if g.Deadline = min(end.Sub(h.Now()), h.Deadline); g.Deadline <= 0 {
		return nil, h.Failed(KindTimeout, fmt.Errorf("no answer within %s", h.Deadline))
	}
	list, err := ask(ctx, g, h.Steering)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, end.Sub(h.Now()))
	defer cancel()
	rules := make([]steer.Rule, len(list.Rules))
	for i, r := range list.Rules {
		if rules[i], err = ruleOf(r); err != nil {
			return nil, h.Failed(KindRefused, err)
		}
	}
	found, err := within(ctx, h.Deadline, func(context.Context) ([]instead, error) {
		return linesFor(w.runs, rules, list.Rules), nil
	})
	if err != nil { // the call's own words took the time, so it does not count against the daemon
		return nil, h.Failed(KindInput, fmt.Errorf("steering did not get through this call's commands: %w", err))
	}
	return found, nil
}

// ruleOf reads a rule of the daemon.
func ruleOf(r api.SteeringRule) (steer.Rule, error) {
	out := steer.Rule{Below: r.Below}
	for _, text := range r.InsteadOf {
		p, err := steer.ParsePattern(text)
		if err != nil {
			return out, refusal.New(refusal.Malformed, "the daemon has the pattern %s over commands: %v", op.Shown(text), err)
		}
		out.Patterns = append(out.Patterns, p)
	}
	return out, nil
}

// linesFor returns the first match of each command.
func linesFor(runs []steer.Command, rules []steer.Rule, said []api.SteeringRule) []instead {
	var out []instead
	real := remembered(realPath)
	for _, c := range runs {
		for i, r := range rules {
			m, ok := r.Match(c, real)
			if !ok {
				continue
			}
			line := submitLine(said[i], m.Bound)
			if !slices.ContainsFunc(out, func(x instead) bool { return x.line == line }) {
				out = append(out, instead{commandText(c), m.Pattern.String(), said[i].From, line})
			}
			break
		}
	}
	return out
}

// remembered asks once for each path.
func remembered(real func(string) string) func(string) string {
	known := map[string]string{}
	return func(path string) string {
		at, ok := known[path]
		if !ok {
			at = real(path)
			known[path] = at
		}
		return at
	}
}

// realPath returns a path without the symbolic links above its last name: rm removes a link, and not what it leads to.
// It resolves as much of the path as this user can see.
func realPath(path string) string {
	dir, rest := filepath.Split(filepath.Clean(path))
	for {
		dir = filepath.Clean(dir)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == "/" || dir == "." {
			return path
		}
		up, name := filepath.Split(dir)
		dir, rest = up, filepath.Join(name, rest)
	}
}

// The words for which the reader of a line puts in others.
const (
	wordTarget = "TARGET"
	wordValue  = "VALUE"
)

// submitLine returns the line to type.
func submitLine(r api.SteeringRule, bound map[string]steer.Word) string {
	name := r.Name
	if name == "" {
		name = string(bound[r.Hole])
		if op.CheckName(name) != nil || isNumber(name) { // an id of the back end is no name
			name = wordTarget
		}
	}
	words := []string{"gated", "submit", r.Op, name}
	for _, p := range r.Params {
		value := wordValue
		if w, there := bound[p]; there {
			value = plainWord(w)
		}
		words = append(words, "-p", p+"="+value)
	}
	return op.ShellWords(append(words, "--reason", "WHY")...)
}

// ids are what back ends number guests with: a number, or a UUID.
var ids = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)
})

func isNumber(name string) bool { return ids().MatchString(name) }

// plainWord returns a word that is known and prints as it is; any other becomes TARGET.
func plainWord(w steer.Word) string {
	text := string(w)
	if !w.Known() || !op.Shows(text) || neutral(text, maxField) != `"`+strings.ReplaceAll(text, `\`, `\\`)+`"` {
		return wordTarget
	}
	return text
}

// commandText returns a command's words for people, with … for what is not known.
func commandText(c steer.Command) string {
	var out []string
	for _, w := range c.Words {
		out = append(out, strings.NewReplacer(steer.Any, "…", steer.Glob, "*").Replace(string(w)))
		if len(out) == maxCommandWords {
			break
		}
	}
	return strings.Join(out, " ")
}

// maxCommandWords is how many words of a command are shown.
const maxCommandWords = 20

// steered returns the message for an agent whose shell's call is refused.
func steered(found []instead) string {
	var b strings.Builder
	b.WriteString("gated: this call was refused and nothing was run: the gate has an operation for what it does.\n" +
		"What to do: type this instead, so that the gate can show what would be lost and an operator can decide:\n")
	var theirs []Word
	for _, x := range found[:min(len(found), maxShown)] {
		fmt.Fprintf(&b, "  %s\n", x.line)
		theirs = append(theirs, Word{Name: "command", Value: x.command})
	}
	if more := len(found) - maxShown; more > 0 {
		fmt.Fprintf(&b, "and %d more.\n", more)
	}
	fmt.Fprintf(&b, "WHY is your reason; put the right word in the place of %s or %s. It matches %q of %s.\n",
		wordTarget, wordValue, found[0].pattern, op.Shown(found[0].from))
	b.WriteString(Framed(theirs))
	return b.String()
}

// SteeredLine returns a shell's line that one of the rules matches, and whose rule that is; nothing if there are none.
func SteeredLine(list api.Steering) (line, from string) {
	for _, r := range list.Rules {
		for _, text := range r.InsteadOf {
			p, err := steer.ParsePattern(text)
			if err != nil {
				continue
			}
			words := p.Sample()
			if r.Below != "" {
				words = append(words, filepath.Join(r.Below, "gated-doctor"))
			}
			return op.ShellWords(words...), r.From
		}
	}
	return "", ""
}
