// Package openapi checks requests and answers against docs/formats/openapi.yaml, for tests.
package openapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is the description of the API. In it, an object has no member that its schema does not name. Readers of
// answers ignore such a member, but a test must not.
type Document struct {
	doc        *openapi3.T
	operations map[string]Operation // by method and path
	routes     *http.ServeMux       // finds the operation of a request, as the server finds its route
}

// Operation is one method of one path, in the words of the server's table of routes.
type Operation struct {
	Method, Path string
	Query        []string // names of parameters, sorted
	Body         bool
}

// began is the directory of the package whose tests run, before a test goes elsewhere.
var began, _ = os.Getwd()

// inModule is the path of a file of the module. The compiler knows no path of its sources with -trimpath.
func inModule(name string) (string, error) {
	for dir := began; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, name), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above " + began)
		}
	}
}

// Read returns the description. It is an error if that is no valid OpenAPI 3.1. All callers share one.
var Read = sync.OnceValues(read)

func read() (*Document, error) {
	file, err := inModule("docs/formats/openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	if !doc.IsOpenAPI31OrLater() {
		return nil, errors.New("it is not OpenAPI 3.1")
	}
	d := &Document{doc: doc, operations: map[string]Operation{}, routes: http.NewServeMux()}
	for _, s := range doc.Components.Schemas {
		if len(s.Value.Properties) > 0 && s.Value.AdditionalProperties.Has == nil {
			s.Value.AdditionalProperties.Has = new(false)
		}
	}
	for _, o := range d.Operations() {
		d.operations[o.Method+" "+o.Path] = o
	}
	for p, item := range doc.Paths.Map() {
		d.routes.HandleFunc(p, func(_ http.ResponseWriter, r *http.Request) { d.found(p, item, r) })
	}
	return d, nil
}

// Operations returns every operation, by path and method.
func (d *Document) Operations() (out []Operation) {
	for _, p := range slices.Sorted(maps.Keys(d.doc.Paths.Map())) {
		ops := d.doc.Paths.Value(p).Operations()
		for _, method := range slices.Sorted(maps.Keys(ops)) {
			o := Operation{Method: method, Path: p, Body: ops[method].RequestBody != nil}
			for _, parameter := range ops[method].Parameters {
				if parameter.Value.In == openapi3.ParameterInQuery {
					o.Query = append(o.Query, parameter.Value.Name)
				}
			}
			slices.Sort(o.Query)
			out = append(out, o)
		}
	}
	return out
}

// Schema is what the description says of one kind of object.
type Schema struct {
	Members  []string // sorted
	Required []string // sorted
	Enum     []string
}

// Schemas returns every named schema.
func (d *Document) Schemas() map[string]Schema {
	out := map[string]Schema{}
	for name, s := range d.doc.Components.Schemas {
		is := Schema{Members: slices.Sorted(maps.Keys(s.Value.Properties)),
			Required: slices.Sorted(slices.Values(s.Value.Required))}
		for _, v := range s.Value.Enum {
			if text, ok := v.(string); ok {
				is.Enum = append(is.Enum, text)
			}
		}
		out[name] = is
	}
	return out
}

type matchKey struct{}

// match is the operation that a request is for, and the values in its path.
type match struct {
	Operation
	item   *openapi3.PathItem // nil: the description has no such operation
	values map[string]string
}

// found is called for a request of that path.
func (d *Document) found(p string, item *openapi3.PathItem, r *http.Request) {
	o, ok := d.operations[r.Method+" "+p]
	if !ok {
		return
	}
	m := r.Context().Value(matchKey{}).(*match)
	m.Operation, m.item, m.values = o, item, map[string]string{}
	for _, parameter := range item.GetOperation(r.Method).Parameters {
		if parameter.Value.In == openapi3.ParameterInPath {
			m.values[parameter.Value.Name] = r.PathValue(parameter.Value.Name)
		}
	}
}

// match returns nil if the description has no such operation.
func (d *Document) match(r *http.Request) *match {
	m := &match{}
	asked := r.Clone(context.WithValue(r.Context(), matchKey{}, m))
	d.routes.ServeHTTP(nowhere{http.Header{}}, asked)
	if m.item == nil {
		return nil
	}
	return m
}

// nowhere is where an answer goes that is not looked at.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
