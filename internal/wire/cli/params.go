package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Pairs collects -p NAME=VALUE as they are typed.
type Pairs []string

// String returns the pairs with spaces between them.
func (p *Pairs) String() string { return strings.Join(*p, " ") }

// Type names the value in help texts.
func (p *Pairs) Type() string { return "NAME=VALUE" }

// Set refuses what has no "=", which is a usage error.
func (p *Pairs) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
		return errors.New("not NAME=VALUE")
	}
	*p = append(*p, s)
	return nil
}

// ParamFlag adds -p with completion of the operation's parameter names. Of an
// operation whose parameters its target names, named completes them, if not nil.
func ParamFlag(c *cobra.Command, to *Pairs, named func(target string) ([]string, cobra.ShellCompDirective)) {
	c.Flags().VarP(to, "param", "p", "a parameter of the operation; may be given again")
	// It fails only for a flag that is not there.
	_ = c.RegisterFlagCompletionFunc("param", completeParams(named))
}

// Target reads NAME, which may be written with its kind, as the tools print it.
// It refuses what names nothing as Malformed.
func Target(kind, name string) (op.Target, error) {
	if !strings.Contains(name, "/") {
		name = kind + "/" + name
	}
	return op.ParseTarget(name)
}

// ReadFile reads a file that the command line names. One that cannot be read is
// a usage error; more bytes than limit are Oversized.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Usage(err.Error())
	}
	defer func() { _ = f.Close() }() // nothing was written
	return Read(f, path, limit)
}

// Read reads what the command line calls by a name, as ReadFile does.
func Read(in io.Reader, name string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, Usage(err.Error())
	}
	if int64(len(b)) > limit {
		return nil, fileTooLarge(name, limit)
	}
	return b, nil
}

// Create makes a file that the command line names. One that is there already is
// a Conflict; one that cannot be made is a usage error.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil, fileExists(path)
	}
	if err != nil {
		return nil, Usage(err.Error())
	}
	return f, nil
}

func fileExists(path string) error {
	return refusal.New(refusal.Conflict, "%s exists", path).WithHint("name a new file")
}

func fileTooLarge(path string, limit int64) error {
	return refusal.New(refusal.Oversized, "%s has more than %d bytes", path, limit)
}

// Inline returns text of others' as it may stand inside a line of ours. It is
// stricter than op.Shown: two spaces in a row, or a space at either end, could
// pass for the layout of a screen. Such text is quoted too, with everything
// escaped that is not plain ASCII. Two different texts are never shown alike.
func Inline(s string) string {
	if shown := op.Shown(s); shown == s && !strings.Contains(s, "  ") && strings.Trim(s, " ") == s {
		return s
	}
	quoted := strconv.QuoteToASCII(s)
	var b strings.Builder
	for i := range len(quoted) {
		// Spaces in a row would still move what follows them to the next line.
		if quoted[i] == ' ' && (quoted[i-1] == ' ' || quoted[i+1] == ' ') {
			b.WriteString(`\x20`)
		} else {
			b.WriteByte(quoted[i])
		}
	}
	return b.String()
}

// Typed returns text from elsewhere as a word of a command that people copy. If it has not the form of a name or an id, a
// shell could read more than a word, and the placeholder stands there.
func Typed(text, placeholder string) string {
	if op.CheckName(text) != nil {
		return placeholder
	}
	return text
}

// Quoted shows others' words as data: always between quotes, in one line. "" stays
// empty.
func Quoted(s string) string {
	if s == "" {
		return ""
	}
	if shown := Inline(s); shown != s {
		return shown
	}
	return strconv.Quote(s)
}

// Person returns the name of somebody who signs, or may, as it may stand inside
// a line of ours: only ASCII, because letters of other scripts look like it.
func Person(name string) string {
	if op.ShownName(name) != name {
		return op.ShownName(name)
	}
	return Inline(name)
}

// People joins the names of those who sign, or may.
func People(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = Person(name)
	}
	return strings.Join(out, ", ")
}

// maxAsked is how many characters of parameters stand in a line of a list.
const maxAsked = 60

// Asked names a target with what is asked of it: its parameters as they are
// signed, cut where they are long, and nothing where there are none. It is for a
// line of a list (see Inline); what is signed is shown whole elsewhere.
func Asked(target string, p op.Params) string {
	if len(p) == 0 {
		return Inline(target)
	}
	text := []rune(string(p.Canonical()))
	if len(text) > maxAsked {
		text = append(text[:maxAsked:maxAsked], []rune("...")...)
	}
	return Inline(target) + " " + Inline(string(text))
}

// Settings shows parameters as -p takes them, each with its name: memory=256 labels.tier=prod. Text that could be read in
// another way is in quotes. A parameter that is an empty text is left out. No parameters are "".
func Settings(p op.Params) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		switch v := p[name].(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				out = append(out, name+"."+key+"="+setting(v[key]))
			}
		case []any:
			for _, e := range v {
				out = append(out, name+"="+setting(e))
			}
		case string:
			if v != "" {
				out = append(out, name+"="+setting(v))
			}
		default:
			out = append(out, name+"="+setting(v))
		}
	}
	return strings.Join(out, " ")
}

func setting(v any) string {
	text := fmt.Sprint(v)
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '\'' || r == '=' }) {
		return strconv.Quote(text)
	}
	return text
}
