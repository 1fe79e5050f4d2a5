package op

import (
	"bytes"
	"errors"
	"io"
	"strconv"

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
