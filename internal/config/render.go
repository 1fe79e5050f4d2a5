package config

import (
	"bytes"
	_ "embed"
	"strconv"
	"text/template"

	"gated/internal/driver/command/catalogue"
	"gated/internal/policy"
	"gated/internal/strictyaml"
)

// Initial is what gated init knows of a new gate.
type Initial struct {
	Host       string
	SingleUser bool   // unless init runs for a uid of the daemon's own
	State      string // the state directory, an absolute path
}

//go:embed gated.yaml.tmpl
var text string

var tmpl = template.Must(template.New("gated.yaml").Funcs(template.FuncMap{"scalar": scalar}).Parse(text))

// Render returns the file that gated init writes: what it was told, and every
// other key commented out, with its default and what it is for.
func Render(in Initial) ([]byte, error) {
	var b bytes.Buffer
	err := tmpl.Execute(&b, struct {
		Initial
		TrashKeep, StopGrace, Interval, MaxValidity, ScratchMaxAge string
		Timeout, ProbeTimeout                                      string
		HubInterval, HubTimeout, HubReport                         string
		OpenPerSource, Workers, Output, JournalQuota, Snapshots    int
		Canary                                                     Canary
	}{in, short(DefaultTrashKeep), short(DefaultStopGrace), short(DefaultInterval), short(policy.MaxValidity),
		short(policy.ScratchMaxAge), short(catalogue.DefaultTimeout), short(catalogue.DefaultProbeTimeout),
		short(DefaultHubInterval), short(DefaultHubTimeout), short(DefaultHubReport),
		policy.OpenPerSource, DefaultWorkers, catalogue.MaxOutput, DefaultJournalQuota, DefaultSnapshots,
		Canary{DefaultCanaryDecisions, DefaultCanaryDays, DefaultCanaryMinimum, DefaultCanaryFloor}})
	return b.Bytes(), err
}

// scalar returns s as YAML, in quotes where it would be read as something else.
func scalar(s string) string {
	if m, err := strictyaml.Parse("", []byte("k: "+s+"\n")); err == nil && m.String("k") == s && m.Done() == nil {
		return s
	}
	return strconv.Quote(s)
}
