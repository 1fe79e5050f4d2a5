// Package desired reads desired-state documents: the wishes of people and hubs for a host's guests. A document can wish
// and can add protection. It has no words for the creator of a guest, for the user and program in it, or for what may
// be lost.
package desired

import (
	"errors"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/strictyaml"
)

// APIVersion is the version of the format, in each document.
const APIVersion = "gated/v1"

// Limits of a document.
const (
	// MaxBytes is the size of the largest document, in bytes.
	MaxBytes = strictyaml.MaxBytes
	// MaxGuests is the most guests of one document.
	MaxGuests = 50_000
	// MaxHost is the longest host name, in bytes (RFC 1035, 2.3.4).
	MaxHost = 253
)

// The states that a document may wish for. Without a state, the guest is not made, started, stopped or destroyed.
const (
	Running = "running"
	Stopped = "stopped"
	Absent  = "absent"
)

// Document is one parsed document. It is never changed once parsed.
type Document struct {
	Host   string
	Guests []Guest // in the order of the document, each name once
}

// Guest has the wishes for one guest. An omitted field is no wish.
type Guest struct {
	Name   string
	State  string    // "", Running, Stopped or Absent
	Fields op.Params // only what the document says: memory (MiB), cpus, command, labels, protected

	Line, Column int // place of the guest, from 1
}

// Target returns the guest as a target.
func (g Guest) Target() op.Target { return op.Target{Kind: "guest", Name: g.Name} }

// Parse reads a document strictly; file names it in errors. Refusals begin with "file:line:column: ". They are
// Malformed, or Oversized beyond a limit. A field that guests do not have is BadParams, or NotAllowed if only the
// operator's configuration may have it.
func Parse(file string, b []byte) (Document, error) {
	root, err := strictyaml.Parse(file, b)
	if err != nil {
		return Document{}, refusalOf(err)
	}
	if v := root.Need("apiVersion"); v.Text() != APIVersion {
		v.Fail("apiVersion is not %s", APIVersion)
	}
	doc := Document{Host: host(root.Need("host"))}
	list := root.Need("guests").List()
	if len(list) > MaxGuests {
		return Document{}, refusal.New(refusal.Oversized, "%s: %d guests, more than %d", file, len(list), MaxGuests).
			WithHint("split the document")
	}
	if len(list) > 0 {
		doc.Guests = make([]Guest, 0, len(list))
	}
	first := make(map[string]int, len(list))
	for _, v := range list {
		g := guest(v.Named(inGuest))
		if line, twice := first[g.Name]; twice && g.Name != "" {
			v.Fail("guest %s is in the document twice, first in line %d", g.Name, line)
		}
		first[g.Name] = g.Line
		doc.Guests = append(doc.Guests, g)
	}
	if err := root.Done(); err != nil {
		return Document{}, refusalOf(err)
	}
	return doc, nil
}

func host(v strictyaml.Value) string {
	s := v.Text()
	if s == "" || len(s) > MaxHost {
		v.Fail("host has %d bytes, not 1 to %d", len(s), MaxHost)
	}
	return s
}

// refusal turns the walk's error into the caller's refusal. An unknown field gets the code that the same field gets as
// a parameter of a job.
func refusalOf(err error) error {
	var e *strictyaml.Error
	if !errors.As(err, &e) {
		return refusal.New(refusal.Malformed, "%v", err)
	}
	code, hint := refusal.Malformed, "correct the document; nothing of it was taken"
	switch {
	case e.TooLarge:
		code, hint = refusal.Oversized, "split the document"
	case e.Key != "" && e.In == inGuest:
		if r := refusal.As(setConfig.Check(anyGuest, op.Params{e.Key: ""})); r != nil {
			code, hint = r.Code, "a guest has name, state, memory, cpus, command, labels and protected"
			if r.Code == refusal.NotAllowed {
				hint = r.Hint
			}
		}
	}
	return refusal.New(code, "%s", e.Error()).WithHint("%s", hint)
}
