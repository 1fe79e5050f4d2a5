package message

import (
	"fmt"
	"strings"
	"time"

	"gated/internal/base/op"
)

// form says how a row's text is shown.
type form int

const (
	plain form = iota // a sentence of gated's, which may have others' names in it
	code              // to type, or a name: as it is
	words             // others' words, in quotes
	block             // others' lines
	link              // an address of the console: no word of it is another's
)

// row is one line of a message.
type row struct {
	name, text string
	form       form
}

// shown returns a row's text without the markup of any product. It has no link and no mention, except in code and in a link.
func (r row) shown() string {
	switch r.form {
	case code, link:
		return r.text
	case words:
		return Quote(r.text)
	case block:
		return "| " + strings.ReplaceAll(Defang(r.text), "\n", "\n| ")
	}
	return Defang(r.text)
}

// rows returns the lines of a message below its title.
func (m Message) rows() []row {
	var out []row
	add := func(f form, name, text string) {
		if text != "" {
			out = append(out, row{name, text, f})
		}
	}
	add(plain, "", m.Detail)
	for _, line := range m.Lines {
		add(plain, "-", line)
	}
	r := m.Request
	if r == nil {
		return out
	}
	add(code, "step", r.Op+" "+r.Target)
	add(plain, "why", r.Why)
	asked := make([]string, len(r.RequestedBy))
	for i, by := range r.RequestedBy {
		asked[i] = op.Beside(by, r.Users)
	}
	add(plain, "asked by", strings.Join(asked, ", "))
	for _, w := range r.Reasons {
		add(words, strings.TrimSpace("words of "+either(op.Beside(w.Name, r.Users), "the requester")), w.Text)
	}
	for _, p := range r.Params {
		add(words, "parameter "+Defang(p.Name), p.Text)
	}
	for _, f := range r.Facts {
		add(words, "fact "+Defang(f.Name), f.Text)
	}
	m.decided(add)
	return out
}

// decided adds what is still to do, or how it ended.
func (m Message) decided(add func(form, string, string)) {
	r := m.Request
	if len(r.Commands) > 0 {
		if r.Missing > 0 {
			add(plain, "needs", fmt.Sprintf("%d more of %s (%s)", r.Missing, strings.Join(r.People, ", "), strings.Join(r.Roles, ", ")))
		}
		if r.PayloadEnds != nil {
			add(plain, "until", r.PayloadEnds.Format(time.RFC3339)+"; then the gate issues new bytes to sign")
		}
		for _, line := range r.Commands {
			add(code, "type", line)
		}
		add(link, "or open", r.Link)
		return
	}
	add(plain, "by", strings.Join(r.By, ", "))
	add(words, "their words", r.ByWords)
	add(plain, "outcome", strings.TrimPrefix(strings.TrimSuffix(r.Code+": "+r.Outcome, ": "), ": "))
	add(block, "printed", r.Output)
}

func either(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Text returns the whole message as plain text, title first. No line begins with others' words.
func (m Message) Text() string { return Defang(m.Title) + "\n\n" + m.Body() }

// Body returns the plain text below the title.
func (m Message) Body() string {
	var b strings.Builder
	for _, r := range m.rows() {
		switch {
		case r.name == "":
			b.WriteString(r.shown() + "\n")
		case r.form == block:
			b.WriteString(Defang(r.name) + ":\n" + r.shown() + "\n")
		case r.name == "-":
			b.WriteString("- " + r.shown() + "\n")
		default:
			b.WriteString(Defang(r.name) + ": " + r.shown() + "\n")
		}
	}
	if m.Request != nil && len(m.Request.Commands) > 0 {
		b.WriteString("\n" + noReply + "\n")
	}
	return b.String()
}

// noReply stands below each request that waits, because people try.
const noReply = "A reply to this message decides nothing: only a signature does."
