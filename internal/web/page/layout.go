package page

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/access"
	"gated/internal/wire/cli"
)

//go:embed templates/*.html
var templates embed.FS

// layouts are all templates. What they print is text of a gate's or a caller's: html/template escapes it, and inline,
// person, quoted and printed show what a browser would not, as opsign does. They are parsed when a server of pages is made,
// because each start of a program, also of a hook, would take 6 ms longer.
var layouts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"inline": cli.Inline, "person": cli.Person, "quoted": cli.Quoted, "moment": cli.Moment, "joined": joined,
		"upper": upper, "stamp": func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"count": cli.Count, "number": func(n int64) string { return strconv.FormatInt(n, 10) },
	}).ParseFS(templates, "templates/*.html"))
})

// frame is what a page has around its own part.
type frame struct {
	Title   string
	Live    string // the gates whose changes make the page old, with spaces between, * for any; empty: it never gets old
	Version uint64 // of the gate that is shown
	Gate    string // whose pages these are; empty: none's
	Tab     string // which of them
	Session access.Session
	Known   bool // there is a session
}

// nameOf returns the name that stands in the frame. A key that no gate listed when it signed in may be listed by now.
func (c Config) nameOf(s access.Session) string {
	if s.Principal != "" || s.Local {
		return s.Principal
	}
	now := c.Now()
	for _, g := range c.Gates.All() {
		if lines := inForce(g, s.Key, now); len(lines) > 0 {
			return lines[0].Principal
		}
	}
	return ""
}

// render answers with a page made of a template. The frame's two halves and the page's own part are three templates that
// run one after the other, so no part has to pass for markup.
func (c Config) render(w http.ResponseWriter, r *http.Request, f frame, name string, data any) {
	f.Session, f.Known = access.SessionOf(r.Context())
	f.Session.Principal = c.nameOf(f.Session)
	var b bytes.Buffer
	err := layouts().ExecuteTemplate(&b, "top", f)
	if err == nil {
		err = layouts().ExecuteTemplate(&b, name, data)
	}
	if err == nil {
		err = layouts().ExecuteTemplate(&b, "bottom", f)
	}
	if err != nil {
		c.Logger.Error("a page cannot be made", "page", name, "why", err)
		http.Error(w, "this page cannot be made: the log of its server says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // a client that is gone needs no answer
}

// show is render for a page of no gate. The page asks for itself again when a gate has a newer version; with version 0 it
// never changes.
func (c Config) show(w http.ResponseWriter, r *http.Request, name, title string, version uint64, data any) {
	f := frame{Title: title, Version: version}
	if version != 0 {
		f.Live = "*"
	}
	c.render(w, r, f, name, data)
}

// problem is a refusal as a page.
func (c Config) problem(w http.ResponseWriter, r *http.Request, status int, why *refusal.Refusal) {
	c.refuse(w, r, frame{}, status, why)
}

// refuse is problem in a frame.
func (c Config) refuse(w http.ResponseWriter, r *http.Request, f frame, status int, why *refusal.Refusal) {
	_, known := access.SessionOf(r.Context())
	p := refused{Title: "Refused", Detail: inLines(why.Detail), Hint: inLines(cmp.Or(why.Hint, api.HintOf(why.Code))),
		Code: string(why.Code), Status: status, Home: known}
	switch status {
	case http.StatusNotFound:
		p.Title = "Not found"
	case http.StatusUnauthorized:
		p.Title = "No session"
	case http.StatusServiceUnavailable:
		p.Title = "The gate does not answer"
	}
	f.Title = cmp.Or(f.Title, p.Title)
	c.render(&statusOnce{ResponseWriter: w, status: status}, r, f, "problem", p)
}

// statusOnce begins the answer with a status that is not 200.
type statusOnce struct {
	http.ResponseWriter
	status int
	begun  bool
}

// Write writes the status before the first byte.
func (s *statusOnce) Write(b []byte) (int, error) {
	if !s.begun {
		s.begun = true
		s.WriteHeader(s.status)
	}
	return s.ResponseWriter.Write(b)
}

// refused is the page of a refusal.
type refused struct {
	Title, Detail, Hint, Code string
	Status                    int
	Home                      bool // there is a first page to go to
}

// inLines shows a sentence of a refusal, which may have words of others.
func inLines(text string) string {
	if text == "" {
		return ""
	}
	return upper(cli.Inline(text))
}

// upper begins a sentence with a capital letter, unless it begins with what is no word, or with a program's name.
func upper(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if first == "" || strings.Trim(first, "abcdefghijklmnopqrstuvwxyz,:") != "" || first == "gated" || first == "opsign" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// joined joins names or roles.
func joined(list any) string {
	var out []string
	switch l := list.(type) {
	case []string:
		for _, s := range l {
			out = append(out, cli.Inline(s))
		}
	case []op.Role:
		for _, s := range l {
			out = append(out, cli.Inline(string(s)))
		}
	}
	return strings.Join(out, ", ")
}

func (s signing) signInPage(w http.ResponseWriter, r *http.Request) {
	to, ok := access.LocalPath(r.URL.Query().Get("to"))
	if !ok {
		to = "/"
	}
	s.show(w, r, "sign-in", "Sign in", 0, struct{ To string }{to})
}

func (s signing) enrolPage(w http.ResponseWriter, r *http.Request) {
	s.show(w, r, "enrol", "Make a passkey", 0, struct {
		RPID  string
		Local bool
	}{s.RPID, s.Local})
}

// launchPage takes the token of opsign web from the address, or from a person.
func (c Config) launchPage(w http.ResponseWriter, r *http.Request) {
	c.render(w, r, frame{Title: "opsign web"}, "launch", nil)
}
