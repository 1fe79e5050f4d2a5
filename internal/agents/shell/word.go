package shell

import (
	"maps"
	"path/filepath"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"gated/internal/agents/steer"
)

const (
	maxFields = 64 // words that one word of the text stands for
	maxBraces = 32 // opening ones in a word
	maxVars   = 64 // variables whose values are remembered
	maxNested = 8  // substitutions in substitutions whose output is known
	maxWords  = 1000
)

// scope is what a shell knows at one place of a text.
type scope struct {
	dir  string   // empty if it is not known
	also []string // where it also may be, because an earlier cd may fail
	many bool     // there are more of these
	vars map[string]string

	nested int  // substitutions around this one
	spent  *int // bytes of words so far, of the whole walk
}

func newScope(at Place, spent *int) *scope {
	s := &scope{dir: at.Dir, also: at.Also, vars: map[string]string{}, spent: spent}
	if at.Home != "" {
		s.vars["HOME"] = at.Home
	}
	return s
}

func (s *scope) copy() *scope {
	out := *s
	out.vars = maps.Clone(s.vars)
	return &out
}

// set remembers the value of a variable.
func (s *scope) set(name, value string) {
	if _, there := s.vars[name]; there || len(s.vars) < maxVars {
		s.vars[name] = value
	}
}

// assign remembers assignments. A value that is not known hides an earlier one.
func (s *scope) assign(list []*syntax.Assign) {
	for _, a := range list {
		switch {
		case a.Name == nil || a.Naked:
		case a.Append || a.Index != nil || a.Array != nil:
			s.set(a.Name.Value, steer.Any)
		case a.Value == nil:
			s.set(a.Name.Value, "")
		default:
			s.set(a.Name.Value, s.quoted(a.Value.Parts))
		}
	}
}

// forget forgets variables that another command sets.
func (s *scope) forget(names []steer.Word) {
	for _, n := range names {
		if _, there := s.vars[string(n)]; there {
			s.vars[string(n)] = steer.Any
		}
	}
}

// forgetAll forgets every variable: any of them may have been set.
func (s *scope) forgetAll() {
	for name := range s.vars {
		s.vars[name] = steer.Any
	}
}

// join keeps what is known with other's effects and without them.
func (s *scope) join(other *scope) {
	if s.dir != other.dir {
		s.dir = ""
	}
	for name, value := range other.vars {
		if was, there := s.vars[name]; !there || was != value {
			s.set(name, steer.Any)
		}
	}
}

// cd changes the directory as the command cd does.
func (s *scope) cd(words []steer.Word) {
	before := *s
	to := steer.Word(s.value("HOME"))
	for _, w := range words {
		if w == "-" || w == "" || w[0] != '-' {
			to = w
			break
		}
	}
	switch {
	case to == "-" || to == "" || !to.Known():
		s.dir = ""
	case filepath.IsAbs(string(to)):
		s.dir = filepath.Clean(string(to))
	case s.dir != "":
		s.dir = filepath.Join(s.dir, string(to))
	}
	s.left(before, to)
}

// value returns the value of a variable, as long as there is room.
func (s *scope) value(name string) string {
	if v, ok := s.vars[name]; ok && *s.spent < maxSpent {
		*s.spent += len(v)
		return v
	}
	if name == "PWD" && s.dir != "" {
		return s.dir
	}
	return steer.Any
}

// fields returns the words that a word of the text becomes.
func (s *scope) fields(word *syntax.Word) []steer.Word {
	opening := 0
	for _, p := range word.Parts {
		if lit, ok := p.(*syntax.Lit); ok {
			opening += strings.Count(lit.Value, "{")
		}
	}
	if opening <= maxBraces { // SplitBraces takes the square of the time
		word = &syntax.Word{Parts: word.Parts} // which is changed
		syntax.SplitBraces(word)
	}
	var out []steer.Word
	for _, parts := range braces(word.Parts) {
		out = append(out, s.split(parts)...)
		if len(out) > maxFields {
			break
		}
	}
	return out
}

// braces returns the alternatives of {a,b}, as parts of words. Too many alternatives stay one part.
func braces(parts []syntax.WordPart) [][]syntax.WordPart {
	out := [][]syntax.WordPart{nil}
	for _, p := range parts {
		alternatives := [][]syntax.WordPart{{p}}
		if b, ok := p.(*syntax.BraceExp); ok && !b.Sequence && len(b.Elems)*len(out) <= maxFields {
			var all [][]syntax.WordPart
			for _, e := range b.Elems {
				all = append(all, braces(e.Parts)...)
			}
			if len(all)*len(out) <= maxFields {
				alternatives = all
			}
		}
		var next [][]syntax.WordPart
		for _, head := range out {
			for _, tail := range alternatives {
				next = append(next, append(head[:len(head):len(head)], tail...))
			}
		}
		out = next
	}
	return out
}

// split returns the words that parts become: a variable's value outside quotes is split at blanks.
func (s *scope) split(parts []syntax.WordPart) []steer.Word {
	var out []steer.Word
	var b strings.Builder
	there := false // a word has begun
	end := func() {
		*s.spent += b.Len()
		out = append(out, steer.Word(b.String()))
		b.Reset()
		there = false
	}
	for i, p := range parts {
		value, splits := s.part(p, i == 0)
		if !splits {
			b.WriteString(value)
			there = there || value != "" || isQuoted(p)
			continue
		}
		words := strings.Fields(value)
		for j, w := range words {
			if there && (j > 0 || strings.ContainsAny(value[:1], " \t\n")) {
				end()
			}
			b.WriteString(w)
			there = true
		}
		if len(words) > 0 && strings.ContainsAny(value[len(value)-1:], " \t\n") {
			end()
		}
	}
	if there {
		end()
	}
	return out
}

func isQuoted(p syntax.WordPart) bool {
	switch p.(type) {
	case *syntax.SglQuoted, *syntax.DblQuoted:
		return true
	}
	return false
}

// part returns the text of a part outside quotes, and whether it is split at blanks. A tilde counts in the first part.
func (s *scope) part(p syntax.WordPart, first bool) (text string, splits bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		return s.literal(p.Value, first), false
	case *syntax.SglQuoted:
		before, _, escaped := strings.Cut(p.Value, `\`)
		if p.Dollar && escaped {
			return before + steer.Any, false
		}
		return p.Value, false
	case *syntax.DblQuoted:
		return s.quoted(p.Parts), false
	case *syntax.ExtGlob:
		return steer.Glob, false
	default:
		return s.expanded(p), true
	}
}

// quoted returns the text of parts within double quotes, or of a value that is not split.
func (s *scope) quoted(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value, "$`\"\\\n"))
		case *syntax.SglQuoted, *syntax.DblQuoted:
			text, _ := s.part(p, false)
			b.WriteString(text)
		default:
			b.WriteString(s.expanded(p))
		}
	}
	return b.String()
}

// expanded returns the value of an expansion.
func (s *scope) expanded(p syntax.WordPart) string {
	switch p := p.(type) {
	case *syntax.ParamExp:
		plain := p.Param != nil && !p.Excl && !p.Length && !p.Width && !p.IsSet && p.Index == nil && p.Slice == nil &&
			p.Repl == nil && p.Names == 0 && p.Flags == nil && p.Modifiers == nil
		if plain && (p.Exp == nil || keepsValue[p.Exp.Op]) {
			if v := s.value(p.Param.Value); p.Exp == nil || v != "" {
				return v
			}
		}
	case *syntax.CmdSubst:
		if len(p.Stmts) == 1 {
			s.nested++
			text := s.printed(p.Stmts[0])
			s.nested--
			if text != "" {
				return strings.TrimRight(text, "\n")
			}
		}
	}
	return steer.Any
}

// keepsValue has the operators that change nothing of a variable that is set and not empty: ${HOME:?}, ${HOME:-/}.
var keepsValue = map[syntax.ParExpOperator]bool{syntax.ErrorUnset: true, syntax.ErrorUnsetOrNull: true, syntax.DefaultUnset: true,
	syntax.DefaultUnsetOrNull: true, syntax.AssignUnset: true, syntax.AssignUnsetOrNull: true}

// literal returns the text of a literal outside quotes, with marks for what the shell would expand.
func (s *scope) literal(text string, first bool) string {
	var b strings.Builder
	if rest, tilde := strings.CutPrefix(text, "~"); tilde && first {
		user, _, _ := strings.Cut(rest, "/")
		home := steer.Any
		if user == "" {
			home = s.value("HOME")
		}
		b.WriteString(home)
		text = rest[len(user):]
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i++; i < len(text) && text[i] != '\n' {
				b.WriteByte(text[i])
			}
		case '*', '?':
			b.WriteString(steer.Glob)
		case '[':
			end := strings.IndexByte(text[i:], ']')
			if end < 0 {
				b.WriteByte(c)
				continue
			}
			b.WriteString(steer.Glob)
			i += end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape removes the backslash before each of these characters.
func unescape(text, before string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte(before, text[i+1]) >= 0 {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// input returns the text that a redirection gives to a program's standard input.
func (s *scope) input(r *syntax.Redirect) (text string, given bool) {
	switch r.Op {
	case syntax.WordHdoc:
		return s.quoted(r.Word.Parts) + "\n", true
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc == nil {
			return "", true
		}
		if raw := r.Hdoc.Lit(); raw != "" && asIs(r.Word) {
			return raw, true
		}
		return s.quoted(r.Hdoc.Parts), true
	}
	return "", false
}

// asIs reports whether the delimiter of a here-document has quotes, so that the shell expands nothing in it.
func asIs(delimiter *syntax.Word) bool {
	text := delimiter.Lit()
	return text == "" || strings.Contains(text, `\`)
}

// printed returns what a statement prints, if it is a simple command whose output is in the text; else nothing.
func (s *scope) printed(st *syntax.Stmt) string {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || s.nested > maxNested {
		return ""
	}
	var words []steer.Word
	for _, a := range call.Args {
		words = append(words, s.fields(a)...)
	}
	if len(words) == 0 {
		return ""
	}
	escaped := words[0] == "printf"
	switch args := words[1:]; words[0] {
	case "echo":
		for len(args) > 0 && (args[0] == "-n" || args[0] == "-e" || args[0] == "-E") {
			escaped = escaped || args[0] == "-e"
			args = args[1:]
		}
		return lines(joined(args), escaped)
	case "printf":
		if len(args) > 1 { // a format and words for it
			args = args[1:]
		}
		return lines(joined(args), escaped)
	case "which":
		return joined(args)
	case "command":
		if len(args) == 2 && args[0] == "-v" {
			return string(args[1])
		}
	case "cat":
		for _, r := range st.Redirs {
			if text, given := s.input(r); given {
				return text
			}
		}
	}
	return ""
}

// lines returns text with an end of line.
func lines(text string, escaped bool) string {
	if escaped {
		text = strings.ReplaceAll(text, `\n`, "\n")
	}
	return text + "\n"
}
