package config

import (
	"bytes"
	_ "embed"
	"strconv"
	"text/template"

	"gated/internal/base/strictyaml"
)

// Initial has the facts of a new gate for gated init.
type Initial struct {
	Host       string
	SingleUser bool   // false if init runs for a separate uid of the daemon
	State      string // the state directory, an absolute path
}

//go:embed gated.yaml.tmpl
var text string

var shown = template.FuncMap{"scalar": scalar, "short": short}

var tmpl = template.Must(template.New("gated.yaml").Funcs(shown).Parse(text))

// Render returns the file that gated init writes: its facts, and every other key commented out, with its default and
// purpose.
func Render(in Initial) ([]byte, error) {
	c, err := Parse("", []byte("host: h\nhub: {url: https://h}\ncommands: {default: {argv: [/x]}}\n"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = tmpl.Execute(&b, struct {
		Initial
		Config
		Quota int64 // MiB
	}{in, c, c.Limits.JournalQuota >> 20})
	return b.Bytes(), err
}

// scalar returns s as YAML, in quotes if YAML would read it as another value.
func scalar(s string) string {
	if m, err := strictyaml.Parse("", []byte("k: "+s+"\n")); err == nil && m.Get("k").Text() == s && m.Done() == nil {
		return s
	}
	return strconv.Quote(s)
}
