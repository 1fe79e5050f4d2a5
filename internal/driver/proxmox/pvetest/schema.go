package pvetest

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// param is the API schema's description of one parameter.
type param struct {
	Ref       string           `json:"ref,omitempty"` // a shared parameter; then all else is empty
	Type      string           `json:"type,omitempty"`
	Optional  bool             `json:"optional,omitzero"`
	Enum      []string         `json:"enum,omitempty"`
	Min       *float64         `json:"min,omitempty"`
	Max       *float64         `json:"max,omitempty"`
	MinLength int              `json:"minLength,omitzero"`
	MaxLength int              `json:"maxLength,omitzero"`
	Pattern   string           `json:"pattern,omitempty"`
	Requires  string           `json:"requires,omitempty"`
	Format    string           `json:"format,omitempty"`   // a named format
	Parts     map[string]param `json:"parts,omitempty"`    // of a property string
	Alias     string           `json:"alias,omitempty"`    // this is another name of that part
	KeyAlias  string           `json:"keyAlias,omitempty"` // the part whose value this name is
}

// endpoint is one method of one path.
type endpoint struct {
	Path   string           `json:"path"`
	Method string           `json:"method"`
	Params map[string]param `json:"params,omitempty"`
}

// schema is the part of the API schema that the driver needs, in a small form.
type schema struct {
	Source    string           `json:"source"`
	Shared    map[string]param `json:"shared"`
	Endpoints []endpoint       `json:"endpoints"`
}

//go:embed schema.json
var schemaText []byte

var loaded = sync.OnceValue(func() schema {
	var s schema
	if err := json.Unmarshal(schemaText, &s); err != nil {
		panic(fmt.Sprintf("pvetest: schema.json: %v", err))
	}
	for _, e := range s.Endpoints {
		for name, p := range e.Params {
			if p.Ref != "" {
				p = s.Shared[p.Ref]
			}
			p.Enum = expand(p.Enum)
			e.Params[name] = p
		}
	}
	s.Endpoints = append(s.Endpoints, unpublished...)
	return s
})

var counted = regexp.MustCompile(`^([a-z]+)\{0\.\.(\d+)\}$`)

// expand writes numbered values, "scsi{0..30}", one by one.
func expand(values []string) []string {
	var out []string
	for _, v := range values {
		m := counted.FindStringSubmatch(v)
		if m == nil {
			out = append(out, v)
			continue
		}
		last, _ := strconv.Atoi(m[2])
		for n := 0; n <= last; n++ {
			out = append(out, m[1]+strconv.Itoa(n))
		}
	}
	return out
}

// find returns the endpoint of a path below /api2/json, and the values of its template's names.
func (s schema) find(method, path string) (endpoint, map[string]string, bool) {
	for _, e := range s.Endpoints {
		if e.Method != method {
			continue
		}
		if vars, ok := matchPath(e.Path, path); ok {
			return e, vars, true
		}
	}
	return endpoint{}, nil, false
}

// matchPath matches a path with a template. A volume takes the rest of the path, because its id
// has slashes.
func matchPath(template, path string) (map[string]string, bool) {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	vars := map[string]string{}
	for i, w := range want {
		if i >= len(have) {
			return nil, false
		}
		switch {
		case w == "{volume}":
			vars["volume"] = strings.Join(have[i:], "/")
			return vars, vars["volume"] != ""
		case strings.HasPrefix(w, "{"):
			if have[i] == "" {
				return nil, false
			}
			vars[strings.Trim(w, "{}")] = have[i]
		case w != have[i]:
			return nil, false
		}
	}
	return vars, len(want) == len(have)
}

var indexed = regexp.MustCompile(`^([a-z]+)(\d+)$`)

// paramOf finds a parameter. "scsi[n]" describes "scsi3", for example.
func (e endpoint) paramOf(name string) (param, bool) {
	if p, ok := e.Params[name]; ok {
		return p, true
	}
	m := indexed.FindStringSubmatch(name)
	if m == nil {
		return param{}, false
	}
	p, ok := e.Params[m[1]+"[n]"]
	n, err := strconv.Atoi(m[2])
	return p, ok && err == nil && n < counts[m[1]]
}

// counts is the number of an indexed parameter's entries, from the documentation. The schema's
// names only end in [n].
var counts = map[string]int{"scsi": 31, "virtio": 16, "sata": 6, "ide": 4, "unused": 256,
	"net": 32, "mp": 256, "ipconfig": 32, "usb": 14, "serial": 4, "hostpci": 16, "dev": 256}

const undefinedProperty = "property is not defined in schema and the schema does not allow additional properties"

// check checks parameters, also those in the path. It returns what is wrong, by parameter.
func (e endpoint) check(values map[string]string) map[string]string {
	wrong := map[string]string{}
	for name, v := range values {
		p, ok := e.paramOf(name)
		if !ok {
			wrong[name] = undefinedProperty
			continue
		}
		if err := p.check(v); err != nil {
			wrong[name] = err.Error()
		} else if _, there := values[p.Requires]; p.Requires != "" && !there {
			wrong[name] = "missing property - '" + name + "' requires this property: " + p.Requires
		}
	}
	for name, p := range e.Params {
		if _, there := values[name]; !there && !p.Optional && !strings.HasSuffix(name, "[n]") {
			wrong[name] = "property is missing and it is not optional"
		}
	}
	return wrong
}

var booleans = map[string]bool{"1": true, "on": true, "yes": true, "true": true,
	"0": true, "off": true, "no": true, "false": true}

func (p param) check(v string) error {
	switch p.Type {
	case "boolean":
		if !booleans[strings.ToLower(v)] {
			return fmt.Errorf("type check ('boolean') failed - got '%s'", v)
		}
		return nil
	case "integer", "number":
		return p.checkNumber(v)
	}
	if len(p.Enum) > 0 && !contains(p.Enum, v) {
		return fmt.Errorf("value '%s' does not have a value in the enumeration '%s'", v, strings.Join(p.Enum, ", "))
	}
	if p.MaxLength > 0 && len(v) > p.MaxLength {
		return fmt.Errorf("value may only be %d characters long", p.MaxLength)
	}
	if len(v) < p.MinLength {
		return fmt.Errorf("value must be at least %d characters long", p.MinLength)
	}
	if p.Pattern != "" && !perl(p.Pattern).MatchString(v) {
		return fmt.Errorf("value does not match the regex pattern")
	}
	if p.Parts != nil {
		return checkParts(p.Parts, v)
	}
	return checkFormat(p.Format, v)
}

func (p param) checkNumber(v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || p.Type == "integer" && (f != math.Trunc(f) || strings.ContainsAny(v, ".eE")) {
		return fmt.Errorf("type check ('%s') failed - got '%s'", p.Type, v)
	}
	if p.Min != nil && f < *p.Min {
		return fmt.Errorf("value must have a minimum value of %v", *p.Min)
	}
	if p.Max != nil && f > *p.Max {
		return fmt.Errorf("value must have a maximum value of %v", *p.Max)
	}
	return nil
}

func contains(list []string, v string) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
