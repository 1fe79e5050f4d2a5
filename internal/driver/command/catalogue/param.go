package catalogue

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Type is the type of a parameter.
type Type string

// The types. A caller sends each as text.
const (
	String  Type = "string"  // a pattern matches all of it
	Integer Type = "integer" // decimal, without leading zeros or a plus sign
	Enum    Type = "enum"
	Path    Type = "path" // below a root
	Bool    Type = "bool" // true or false
)

// Param says which values a parameter may have.
type Param struct {
	Type     Type
	Pattern  string   // of a string: RE2, which must match all of it
	Min, Max int64    // of an integer, both included; Max of a string is its greatest length in bytes
	Values   []string // of an enum
	Below    string   // of a path: an absolute path
}

// secretWords are words in names of secrets.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "privatekey"}

// secretAlone are words that only count alone, because other words contain them.
var secretAlone = map[string]bool{"key": true, "keys": true, "pass": true, "pwd": true, "pw": true, "pin": true, "otp": true, "auth": true, "cred": true, "creds": true}

// CheckParamName says what is wrong with a parameter's name, or returns "". A parameter may
// hold no secret, because everything that callers ask, see and sign is stored in clear.
func CheckParamName(name string) string {
	if op.CheckName(name) != nil {
		return fmt.Sprintf("%q is not a parameter's name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", name)
	}
	lower := strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(name))
	found := slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(lower, w) }) ||
		slices.ContainsFunc(wordsOf(name), func(w string) bool { return secretAlone[w] })
	if found {
		return fmt.Sprintf("%q sounds like a secret: parameters and what a command prints are shown, signed and stored in clear; let the program read a secret from a file of its user's", name)
	}
	return ""
}

// wordsOf splits a name at punctuation, digits and capitals.
func wordsOf(name string) []string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r):
			r = ' '
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(rune(name[i-1])):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// Check says what is wrong with the declaration of a parameter, or returns "".
func (p Param) Check() string {
	switch p.Type {
	case String:
		// It also compiles the pattern alone, so that a pattern such as a)|(b cannot leave the
		// group.
		if _, err := regexp.Compile(p.Pattern); err != nil {
			return fmt.Sprintf("the pattern is not RE2: %v", err)
		}
		if _, err := p.whole(); err != nil {
			return "the pattern does not end: write \\Q...\\E in whole"
		}
		if p.Max < 1 || p.Max > MaxLength {
			return fmt.Sprintf("max is %d, not 1 to %d bytes", p.Max, MaxLength)
		}
	case Integer:
		if p.Min > p.Max || p.Min < -op.MaxInt || p.Max > op.MaxInt {
			return fmt.Sprintf("%d to %d is no range", p.Min, p.Max)
		}
	case Enum:
		return checkValues(p.Values)
	case Path:
		if !filepath.IsAbs(p.Below) || filepath.Clean(p.Below) != p.Below {
			return fmt.Sprintf("below is %q, not an absolute path without . and .. and double slashes", p.Below)
		}
	case Bool:
	default:
		return fmt.Sprintf("the type is %q, none of string, integer, enum, path and bool", p.Type)
	}
	return ""
}

func checkValues(values []string) string {
	if len(values) == 0 || len(values) > MaxValues {
		return fmt.Sprintf("there are %d values, not 1 to %d", len(values), MaxValues)
	}
	for i, v := range values {
		switch {
		case v == "" || len(v) > MaxLength || op.CheckText("", v) != nil:
			return fmt.Sprintf("the value %q is empty, too long, or does not show as it is", v)
		case slices.Contains(values[:i], v):
			return fmt.Sprintf("the value %q is there twice", v)
		}
	}
	return ""
}

// whole is the pattern that must match all of a value.
func (p Param) whole() (*regexp.Regexp, error) { return regexp.Compile(`\A(?:` + p.Pattern + `)\z`) }

// Refuses says why a value does not fit, or returns "". The driver itself checks that a path
// stays below its root.
func (p Param) Refuses(v string) string {
	if op.CheckText("", v) != nil {
		return "has a character that does not show as it is"
	}
	switch p.Type {
	case String:
		if len(v) > int(p.Max) {
			return fmt.Sprintf("has %d bytes, more than %d", len(v), p.Max)
		}
		if re, err := p.whole(); err != nil || !re.MatchString(v) {
			return fmt.Sprintf("does not match %s from its beginning to its end", p.Pattern)
		}
	case Integer:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != v {
			return "is not a whole number in its one decimal spelling"
		}
		if n < p.Min || n > p.Max {
			return fmt.Sprintf("is outside %d to %d", p.Min, p.Max)
		}
	case Enum:
		if !slices.Contains(p.Values, v) {
			return "is none of " + strings.Join(p.Values, ", ")
		}
	case Bool:
		if v != "true" && v != "false" {
			return "is neither true nor false"
		}
	case Path:
		if v == "" || len(v) > MaxLength {
			return fmt.Sprintf("has %d bytes, not 1 to %d", len(v), MaxLength)
		}
	default:
		return "is of no type"
	}
	return ""
}

// String says in words which values a parameter may have.
func (p Param) String() string {
	switch p.Type {
	case String:
		return fmt.Sprintf("string that matches %s, at most %d bytes", p.Pattern, p.Max)
	case Integer:
		return fmt.Sprintf("integer, %d to %d", p.Min, p.Max)
	case Enum:
		return "one of " + strings.Join(p.Values, ", ")
	case Path:
		return "path below " + p.Below
	default:
		return "true or false"
	}
}

// withArticle is String for the middle of a sentence.
func (p Param) withArticle() string {
	switch p.Type {
	case String, Path:
		return "a " + p.String()
	case Integer:
		return "an " + p.String()
	default:
		return p.String()
	}
}

// Read checks a caller's parameters against their declaration. All must be there, and no
// others. Refusals are BadParams, and name the parameter and the reason.
func Read(declared map[string]Param, given op.Params) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range sorted(given) {
		p, ok := declared[name]
		if !ok {
			return nil, refusal.New(refusal.BadParams, "there is no parameter %q", op.Shown(name)).
				WithHint("%s", known(declared))
		}
		v, ok := given[name].(string)
		if !ok {
			return nil, refusal.New(refusal.BadParams, "%s is not text", name).
				WithHint("numbers and truth values are written as text too: \"42\"")
		}
		if why := p.Refuses(v); why != "" {
			return nil, refusal.New(refusal.BadParams, "%s: %s %s", name, op.Shown(v), why).
				WithHint("%s is %s", name, p.withArticle())
		}
		out[name] = v
	}
	for _, name := range sorted(declared) {
		if _, ok := out[name]; !ok {
			return nil, refusal.New(refusal.BadParams, "the parameter %s is missing", name).
				WithHint("%s is %s", name, declared[name].withArticle())
		}
	}
	return out, nil
}

func known(declared map[string]Param) string {
	if len(declared) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(sorted(declared), ", ")
}
