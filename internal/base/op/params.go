package op

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// Params are a step's parameters: strings, booleans, int64 within ±MaxInt, and
// objects (map[string]any) and arrays ([]any) of these. They are compared as values.
// They never change after they were parsed.
type Params map[string]any

// ParseParams reads a JSON object strictly: no duplicate members, no null, no
// fraction or exponent, depth at most MaxDepth, no invisible characters. It does not
// use the catalogue; Spec.Check does. Refusals are Malformed.
func ParseParams(raw []byte) (Params, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	v, err := parseValue(d, 1)
	if err != nil {
		return nil, err
	}
	p, ok := v.(map[string]any)
	if !ok {
		return nil, refusal.New(refusal.Malformed, "params is not an object")
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, refusal.New(refusal.Malformed, "params is followed by other data")
	}
	return p, nil
}

func parseValue(d *jsontext.Decoder, depth int) (any, error) {
	if depth > MaxDepth+1 {
		return nil, refusal.New(refusal.Malformed, "params are nested deeper than %d", MaxDepth)
	}
	tok, err := d.ReadToken()
	if err != nil {
		return nil, refusal.New(refusal.Malformed, "params: %v", err)
	}
	switch tok.Kind() {
	case '"':
		s := tok.String()
		return s, CheckText("a parameter", s)
	case 't', 'f':
		return tok.Bool(), nil
	case '0':
		return parseInt(tok.String())
	case '{':
		if depth > MaxDepth {
			return nil, refusal.New(refusal.Malformed, "params are nested deeper than %d", MaxDepth)
		}
		return parseObject(d, depth)
	case '[':
		if depth > MaxDepth {
			return nil, refusal.New(refusal.Malformed, "params are nested deeper than %d", MaxDepth)
		}
		return parseArray(d, depth)
	default:
		return nil, refusal.New(refusal.Malformed, "params have a null").WithHint("leave the member out")
	}
}

func parseObject(d *jsontext.Decoder, depth int) (map[string]any, error) {
	m := map[string]any{}
	for d.PeekKind() != '}' {
		tok, err := d.ReadToken()
		if err != nil {
			return nil, refusal.New(refusal.Malformed, "params: %v", err)
		}
		name := tok.String()
		if err := CheckText("a parameter's name", name); err != nil {
			return nil, err
		}
		if m[name], err = parseValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, refusal.New(refusal.Malformed, "params: %v", err)
	}
	return m, nil
}

func parseArray(d *jsontext.Decoder, depth int) ([]any, error) {
	a := []any{}
	for d.PeekKind() != ']' {
		v, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, refusal.New(refusal.Malformed, "params: %v", err)
	}
	return a, nil
}

// parseInt reads an integer from its text, because a float would round 2^53.
func parseInt(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > MaxInt || n < -MaxInt || text == "-0" {
		return 0, refusal.New(refusal.Malformed, "number %s is not an integer within ±(2^53-1)", text)
	}
	return n, nil
}

// Canonical returns the RFC 8785 form of p, and "{}" for nil.
func (p Params) Canonical() []byte {
	if len(p) == 0 {
		return []byte("{}")
	}
	b, err := json.Marshal(map[string]any(p), json.Deterministic(true))
	if err != nil {
		// p may have only values that ParseParams makes.
		panic("op: params hold what ParseParams does not make: " + err.Error())
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		panic("op: canonicalize params: " + err.Error())
	}
	return v
}

// MarshalJSON writes the canonical form.
func (p Params) MarshalJSON() ([]byte, error) { return p.Canonical(), nil }

// UnmarshalJSON reads as ParseParams does.
func (p *Params) UnmarshalJSON(b []byte) error {
	v, err := ParseParams(b)
	if err != nil {
		return err
	}
	*p = v
	return nil
}

// Equal compares two parameter sets as values.
func (p Params) Equal(q Params) bool { return bytes.Equal(p.Canonical(), q.Canonical()) }

// Has reports whether name is present.
func (p Params) Has(name string) bool { _, ok := p[name]; return ok }

// Str returns the string parameter name, or "".
func (p Params) Str(name string) string { s, _ := p[name].(string); return s }

// Int returns the integer parameter name, or 0.
func (p Params) Int(name string) int64 { n, _ := p[name].(int64); return n }

// Bool returns the boolean parameter name, or false.
func (p Params) Bool(name string) bool { b, _ := p[name].(bool); return b }

// Labels returns the object parameter name as strings, or nil if it is absent.
func (p Params) Labels(name string) map[string]string {
	m, ok := p[name].(map[string]any)
	if !ok {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		s, _ := v.(string)
		out[k] = s
	}
	return out
}

// Lines returns the array parameter name as strings, or nil if it is absent.
func (p Params) Lines(name string) []string {
	list, _ := p[name].([]any)
	var out []string
	for _, e := range list {
		if line, ok := e.(string); ok {
			out = append(out, line)
		}
	}
	return out
}

// mebibytes are the units in which a parameter of unit MiB may be written on a
// command line.
var mebibytes = map[string]int64{"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}

// ParseArgs reads parameters as they are typed on a command line, "name=value",
// each value by its type in the catalogue:
//
//	memory=512   memory=2GiB   protected=true   command=web
//	labels.tier=prod           labels={"tier":"prod"}
//	remove=SHA256:…            and again for each further line
//
// Labels given one by one are joined with those of an object. A name that the
// catalogue does not know stays a string, and the gate refuses it. A value of
// another type, a repeated name and an argument without "=" are BadParams. Text that
// a terminal would not show as it is, is Malformed. Check checks the ranges.
func (s Spec) ParseArgs(args []string) (Params, error) {
	p := Params{}
	for _, arg := range args {
		if err := CheckText("a parameter", arg); err != nil {
			return nil, err // such text could not be sent either
		}
		name, text, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, refusal.New(refusal.BadParams, "%q is not name=value", arg)
		}
		outer, label, isLabel := strings.Cut(name, ".")
		d, known := s.Param(name)
		if l, ok := s.Param(outer); isLabel && ok && l.Type == TLabels {
			if err := p.addLabel(outer, label, text); err != nil {
				return nil, err
			}
			continue
		}
		if p.Has(name) && !(known && (d.Type == TLabels || d.Type == TLines)) {
			return nil, refusal.New(refusal.BadParams, "%s is given twice", name)
		}
		if !known {
			p[name] = text
			continue
		}
		if err := p.addArg(d, text); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// addArg puts the text of one known parameter into p.
func (p Params) addArg(d Param, text string) error {
	switch d.Type {
	case TInt:
		n, err := d.number(text)
		if err != nil {
			return err
		}
		p[d.Name] = n
	case TBool:
		if text != "true" && text != "false" {
			return refusal.New(refusal.BadParams, "%s is %q, neither true nor false", d.Name, text)
		}
		p[d.Name] = text == "true"
	case TLabels:
		given, err := ParseParams([]byte(text))
		if err != nil {
			return refusal.New(refusal.BadParams, "%s is not a JSON object of strings", d.Name).
				WithHint(`write %s.KEY=VALUE, or %s='{"KEY":"VALUE"}'`, d.Name, d.Name)
		}
		if !p.Has(d.Name) {
			p[d.Name] = map[string]any{}
		}
		for _, k := range sortedKeys(given) {
			v, ok := given[k].(string)
			if !ok {
				return refusal.New(refusal.BadParams, "the value of %s.%s is not a string", d.Name, k)
			}
			if err := p.addLabel(d.Name, k, v); err != nil {
				return err
			}
		}
	case TLines:
		list, _ := p[d.Name].([]any)
		p[d.Name] = append(list, text)
	default:
		p[d.Name] = text
	}
	return nil
}

func (p Params) addLabel(name, key, value string) error {
	m, ok := p[name].(map[string]any)
	if !ok {
		m = map[string]any{}
		p[name] = m
	}
	if _, twice := m[key]; twice {
		return refusal.New(refusal.BadParams, "%s.%s is given twice", name, key)
	}
	m[key] = value
	return nil
}

// number reads an integer in the parameter's unit.
func (d Param) number(text string) (int64, error) {
	digits, factor := text, int64(1)
	if d.Unit == "MiB" && len(text) > 3 {
		if f, ok := mebibytes[text[len(text)-3:]]; ok {
			digits, factor = text[:len(text)-3], f
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > MaxInt/factor || n < -MaxInt/factor {
		r := refusal.New(refusal.BadParams, "%s is %q, not an integer", d.Name, text)
		if d.Unit != "" {
			example := int64(2)
			if d.Unit == "MiB" {
				example = 512
			}
			r = r.WithHint("it is a whole number of %s: %s=%d", d.Unit, d.Name, max(d.Min, example))
		}
		return 0, r
	}
	return n * factor, nil
}
