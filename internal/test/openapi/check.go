package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-json-experiment/json"
)

// Checked returns a transport whose calls go to base. It fails the test in three cases. An answer has a status, a media
// type or a member that the description does not name. An answer lacks a member that it promises. The server accepted a
// request that it forbids. An answer's body is checked when it was read to its end.
func (d *Document) Checked(t testing.TB, base http.RoundTripper) http.RoundTripper {
	return &transport{d: d, t: t, base: base}
}

type transport struct {
	d    *Document
	t    testing.TB
	base http.RoundTripper
}

// RoundTrip makes the call.
func (c *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, ended: func(content []byte) {
		if err := c.d.Check(r, resp, content); err != nil {
			c.t.Errorf("docs/formats/openapi.yaml: %s %s: %v\n%s", r.Method, r.URL, err, content)
		}
	}}
	return resp, nil
}

// body calls ended once, when all was read.
type body struct {
	io.ReadCloser
	read  bytes.Buffer
	ended func([]byte)
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	if errors.Is(err, io.EOF) && b.ended != nil {
		b.ended(b.read.Bytes())
		b.ended = nil
	}
	return n, err
}

// Check compares a call with the description. The request is compared only if the server accepted it, and its body only
// if it can be read again (http.Request.GetBody).
func (d *Document) Check(r *http.Request, resp *http.Response, content []byte) error {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge && kind == "text/plain" {
		return nil // net/http refused it before there was a request
	}
	m := d.match(r)
	if m == nil {
		return d.checkUnknown(resp, content)
	}
	operation := m.item.GetOperation(m.Method)
	options := &openapi3filter.Options{IncludeResponseStatus: true, RejectWhenRequestBodyNotSpecified: true,
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	options.WithCustomSchemaErrorFunc(words)
	in := &openapi3filter.RequestValidationInput{Request: r.Clone(r.Context()), PathParams: m.values, Options: options,
		Route: &routers.Route{Spec: d.doc, Path: m.Path, PathItem: m.item, Method: m.Method, Operation: operation}}
	if err := askedAgain(in, r, operation); err != nil {
		return err
	}
	if resp.StatusCode/100 == 2 {
		if err := checkRequest(in, m.Operation); err != nil {
			return fmt.Errorf("the server accepted what is not described: %w", err)
		}
	}
	if kind == eventStream && resp.StatusCode == http.StatusOK {
		return d.checkEvents(content)
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode,
		Header: resp.Header, Options: options}
	out.SetBodyBytes(content)
	if resp.StatusCode == http.StatusNoContent && len(content) > 0 {
		return errors.New("a body where none is described")
	}
	return openapi3filter.ValidateResponse(r.Context(), out)
}

// words leaves the schema and the value out: the test prints the whole answer.
func words(e *openapi3.SchemaError) string {
	return fmt.Sprintf("/%s: %s", strings.Join(e.JSONPointer(), "/"), e.Reason)
}

// askedAgain gives the copied request a body of its own. The server does not look at the media type, but the validator
// does.
func askedAgain(in *openapi3filter.RequestValidationInput, r *http.Request, operation *openapi3.Operation) error {
	in.Request.Body = nil
	if r.GetBody == nil {
		in.Options.ExcludeRequestBody = r.Body != nil
		return nil
	}
	var err error
	if in.Request.Body, err = r.GetBody(); err != nil {
		return err
	}
	if operation.RequestBody != nil {
		for kind := range operation.RequestBody.Value.Content {
			in.Request.Header.Set("Content-Type", kind)
		}
	}
	return nil
}

// checkRequest also refuses a query parameter without a description, which the validator ignores.
func checkRequest(in *openapi3filter.RequestValidationInput, o Operation) error {
	for _, name := range slices.Sorted(maps.Keys(in.Request.URL.Query())) {
		if !slices.Contains(o.Query, name) {
			return fmt.Errorf("the query parameter %q", name)
		}
	}
	return openapi3filter.ValidateRequest(in.Request.Context(), in)
}

// checkUnknown checks the answer about a path or a method that is not described.
func (d *Document) checkUnknown(resp *http.Response, content []byte) error {
	if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
		return fmt.Errorf("it is not described, and was answered with %d", resp.StatusCode)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/problem+json" {
		return fmt.Errorf("it was answered with %s", kind)
	}
	return d.checkObject("Problem", content)
}

const eventStream = "text/event-stream"

// checkEvents checks each entry of a stream.
func (d *Document) checkEvents(content []byte) error {
	for line := range bytes.Lines(content) {
		if entry, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if err := d.checkObject("Entry", entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkObject checks JSON against a named schema.
func (d *Document) checkObject(schema string, content []byte) error {
	var v any
	if err := json.Unmarshal(content, &v); err != nil {
		return err
	}
	return d.doc.Components.Schemas[schema].Value.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.VisitAsResponse(),
		openapi3.SetSchemaErrorMessageCustomizer(words))
}
