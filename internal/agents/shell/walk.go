package shell

import (
	"path/filepath"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"gated/internal/agents/steer"
)

// The bounds of one text. What is beyond them is not taken apart.
const (
	maxText     = 64 << 10 // bytes, also of a text inside the text
	maxDepth    = 8        // texts inside texts
	maxCommands = 2000     // in all
	maxSteps    = 10000    // statements that are looked at, each time that they would run
	maxSpent    = 1 << 20  // bytes of texts and words in all
	maxLoop     = 16       // values of a loop's variable
)

// Place is where a text would run.
type Place struct {
	Dir  string   // absolute; empty if it is not known
	Also []string // other directories in which it may run
	Home string   // the user's; empty if it is not known
}

// Commands returns the programs that a text would run, wrapped ones too: sudo true is also true. It returns those
// before the first mistake in the text, and none for a text of more than 64 KiB.
func Commands(text string, at Place) []steer.Command {
	w := &walker{limit: maxText}
	w.text(text, newScope(at, &w.spent), "")
	return w.found
}

// walker collects commands.
type walker struct {
	found   []steer.Command
	patches []Patch
	cut     bool // a part was not taken apart

	limit int // bytes of a text
	depth int // texts inside texts
	steps int // statements so far
	spent int // bytes so far
}

// text walks a text that a shell reads. It reads in as its input.
func (w *walker) text(text string, s *scope, in string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if len(text) > w.limit || w.depth == maxDepth {
		w.cut = true
		return
	}
	w.spent += len(text)
	w.depth++
	defer func() { w.depth-- }()
	list, wrong := parse(text)
	w.cut = w.cut || wrong
	w.stmts(list, s, in)
}

// parse returns the statements before the first mistake: a shell runs those, too.
func parse(text string) (list []*syntax.Stmt, wrong bool) {
	for st, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(strings.NewReader(text)) {
		if wrong = wrong || err != nil; !wrong { // the parser may call again after an error: a break would panic
			list = append(list, st)
		}
	}
	return list, wrong
}

func (w *walker) full() bool {
	return len(w.found) >= maxCommands || w.steps >= maxSteps || w.spent >= maxSpent
}

func (w *walker) stmts(list []*syntax.Stmt, s *scope, in string) {
	for _, st := range list {
		w.stmt(st, s, in)
	}
}

// stmt walks one statement, with the text that its standard input has; empty if that is not known.
func (w *walker) stmt(st *syntax.Stmt, s *scope, in string) {
	if st == nil || w.full() {
		return
	}
	w.steps++
	if st.Background {
		s = s.copy()
	}
	for _, r := range st.Redirs {
		w.inside(r, s)
		if text, given := s.input(r); given {
			in = text
		}
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(c, s, in)
	case *syntax.DeclClause:
		w.inside(c, s)
		s.assign(c.Args)
	case *syntax.BinaryCmd:
		w.binary(c, s, in)
	case *syntax.Subshell:
		w.stmts(c.Stmts, s.copy(), in)
	case *syntax.Block:
		w.stmts(c.Stmts, s, in)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			w.stmts(c.Cond, s, in)
			w.maybe(c.Then, s, in)
		}
	case *syntax.WhileClause:
		w.stmts(c.Cond, s, in)
		w.maybe(c.Do, s, in)
	case *syntax.ForClause:
		w.loop(c, s, in)
	case *syntax.CaseClause:
		w.inside(c.Word, s)
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				w.inside(p, s)
			}
			w.maybe(item.Stmts, s, in)
		}
	case *syntax.FuncDecl:
		w.maybe([]*syntax.Stmt{c.Body}, s, in)
	case *syntax.ArithmCmd, *syntax.LetClause:
		w.inside(c, s)
		s.forgetAll()
	case *syntax.TimeClause:
		w.stmt(c.Stmt, s, in)
	case *syntax.CoprocClause:
		w.stmt(c.Stmt, s, in)
	case nil:
	default:
		w.inside(c, s)
	}
}

// maybe walks statements that may run or not, each with its own effects. After them, what they change is not known.
func (w *walker) maybe(list []*syntax.Stmt, s *scope, in string) {
	branch := s.copy()
	w.stmts(list, branch, in)
	s.join(branch)
}

func (w *walker) binary(c *syntax.BinaryCmd, s *scope, in string) {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
	case syntax.OrStmt:
		w.stmt(c.X, s, in)
		branch := s.copy()
		w.stmt(c.Y, branch, in)
		s.or(branch)
		return
	default:
		w.stmt(c.X, s, in)
		w.stmt(c.Y, s, in)
		return
	}
	w.stmt(c.X, s.copy(), in)
	w.stmt(c.Y, s.copy(), s.printed(c.X))
}

// loop walks a loop's body with each value of its variable, or once if they are not known.
func (w *walker) loop(c *syntax.ForClause, s *scope, in string) {
	w.inside(c.Loop, s)
	var values []steer.Word
	words, named := c.Loop.(*syntax.WordIter)
	if named {
		for _, item := range words.Items {
			values = append(values, s.fields(item)...)
		}
	}
	if len(values) == 0 || len(values) > maxLoop {
		values = []steer.Word{steer.Any}
	}
	for _, v := range values {
		if named {
			s.set(words.Name.Value, string(v))
		}
		w.stmts(c.Do, s, in)
	}
}

// inside walks the substitutions in a node: $(…), backquotes, <(…).
func (w *walker) inside(node syntax.Node, s *scope) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.stmts(n.Stmts, s.copy(), "")
		case *syntax.ProcSubst:
			w.stmts(n.Stmts, s.copy(), "")
		default:
			return true
		}
		return false
	})
}

// call walks a simple command.
func (w *walker) call(c *syntax.CallExpr, s *scope, in string) {
	var words []steer.Word
	for _, a := range c.Assigns {
		w.inside(a, s)
	}
	for _, a := range c.Args {
		w.inside(a, s)
		words = append(words, s.fields(a)...)
	}
	words = words[:min(len(words), maxWords)]
	if len(c.Args) == 0 {
		s.assign(c.Assigns)
		return
	}
	w.run(words, s, in)
}

// run notes a program with its words, and then what that program runs.
func (w *walker) run(words []steer.Word, s *scope, in string) {
	for len(words) > 0 && !w.full() {
		w.found = append(w.found, steer.Command{Words: words, Dir: s.dir})
		w.patch(words, s, in)
		if !words[0].Known() {
			return
		}
		name := filepath.Base(string(words[0]))
		switch {
		case name == "cd" || name == "pushd":
			s.cd(words[1:])
			return
		case name == "popd":
			s.dir = ""
			return
		case name == "unset" || name == "read" || name == "mapfile" || name == "readarray" || name == "getopts" || name == "printf":
			s.forget(words[1:])
			return
		case name == "." || name == "source":
			s.forgetAll()
			return
		case name == "eval":
			w.text(joined(words[1:]), s, in)
			return
		case name == "trap" && len(words) > 1:
			w.text(string(words[1]), s.copy(), "")
			return
		case name == "find":
			w.find(words, s)
			return
		case shells[name]:
			w.shell(words, s, in)
			return
		case told[name]:
			if text, given := toldAs(words); given {
				w.text(text, s.copy(), in)
				return
			}
		}
		words, s = unwrap(name, words, s)
		if name == "watch" { // it gives its words to a shell, as one text
			w.text(joined(words), s.copy(), "")
			return
		}
		if len(words) > 1 && words[0] == "-c" { // flock FILE -c TEXT
			w.text(string(words[1]), s.copy(), in)
			return
		}
	}
}

// shell walks what a shell is told to run: the text after -c, or its standard input.
func (w *walker) shell(words []steer.Word, s *scope, in string) {
	command, input := false, false
	reads, acts := false, false // -n reads the text and runs none of it, unless another word has -i or a plus
	i := 1
	for ; i < len(words); i++ {
		o := string(words[i])
		if len(o) < 2 || o[0] != '-' && o[0] != '+' {
			break
		}
		if o == "--" {
			i++
			break
		}
		if strings.HasPrefix(o, "--") {
			if o == "--rcfile" || o == "--init-file" {
				i++
			}
			continue
		}
		reads = reads || o[0] == '-' && strings.Contains(o, "n") && strings.Trim(o[1:], "nvxceus") == "" // not -norc
		acts = acts || o[0] == '+' || strings.Contains(o, "i")
		command = command || strings.Contains(o, "c")
		input = input || strings.Contains(o, "s")
		if end := o[len(o)-1]; end == 'o' || end == 'O' {
			i++
		}
	}
	switch {
	case reads && !acts:
	case command && i < len(words):
		w.text(string(words[i]), s.copy(), in)
	case !command && (input || i >= len(words) || words[i] == "-"):
		w.text(in, s.copy(), "")
	}
}

// find walks the programs that find runs, with the first directory in which it looks in the place of {}.
func (w *walker) find(words []steer.Word, s *scope) {
	start := steer.Word(".")
	for _, o := range words[1:] {
		if o != "" && o[0] != '-' {
			start = o
			break
		}
	}
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		var run []steer.Word
		for i++; i < len(words) && words[i] != ";" && words[i] != "+"; i++ {
			run = append(run, replaced(words[i], "{}", start))
		}
		w.run(run, s.copy(), "")
	}
}

func replaced(w steer.Word, old string, by steer.Word) steer.Word {
	return steer.Word(strings.ReplaceAll(string(w), old, string(by)))
}

// joined returns words as one text, as eval does.
func joined(words []steer.Word) string {
	out := make([]string, len(words))
	for i, x := range words {
		out[i] = string(x)
	}
	return strings.Join(out, " ")
}
