package desired_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

const whole = `apiVersion: gated/v1
host: pve1
guests:
  - name: web-1
    state: running            # running | stopped | absent
    memory: 512MiB
    cpus: 2
    command: web              # an entry of local.commands in gated.yaml
    labels: {tier: prod}
    protected: true
  - {name: old, state: absent}
  - name: db
    memory: 2GiB
    labels:
      tier: prod
      "on": call
`

func TestParse(t *testing.T) {
	doc := must.Get(desired.Parse("site.yaml", []byte(whole)))(t)
	require.Equal(t, desired.Document{Host: "pve1", Guests: []desired.Guest{
		{Name: "web-1", State: desired.Running, Line: 4, Column: 5, Fields: op.Params{"memory": int64(512), "cpus": int64(2),
			"command": "web", "labels": map[string]any{"tier": "prod"}, "protected": true}},
		{Name: "old", State: desired.Absent, Line: 11, Column: 5, Fields: op.Params{}},
		{Name: "db", Line: 12, Column: 5, Fields: op.Params{"memory": int64(2048),
			"labels": map[string]any{"tier": "prod", "on": "call"}}},
	}}, doc)
	require.Equal(t, op.Target{Kind: "guest", Name: "web-1"}, doc.Guests[0].Target())

	doc = must.Get(desired.Parse("none.yaml", []byte("apiVersion: gated/v1\nhost: pve1\nguests: []\n")))(t)
	require.Empty(t, doc.Guests)
}

func TestParseRefusals(t *testing.T) {
	head := "apiVersion: gated/v1\nhost: h\nguests:\n"
	for name, c := range map[string]struct {
		src  string
		code refusal.Code
		at   string
		msg  string
	}{
		"empty":            {"", refusal.Malformed, "f:1:1", "empty"},
		"html":             {"<html><body>502</body></html>", refusal.Malformed, "f:1:1", "not a map"},
		"other version":    {"apiVersion: gated/v2\nhost: h\nguests: []\n", refusal.Malformed, "f:1:13", "gated/v1"},
		"no version":       {"host: h\nguests: []\n", refusal.Malformed, "f:1:1", "apiVersion is missing"},
		"no host":          {"apiVersion: gated/v1\nguests: []\n", refusal.Malformed, "f:1:1", "host is missing"},
		"empty host":       {"apiVersion: gated/v1\nhost: \"\"\nguests: []\n", refusal.Malformed, "f:2:7", "0 bytes"},
		"no guests":        {"apiVersion: gated/v1\nhost: h\n", refusal.Malformed, "f:1:1", "guests is missing"},
		"null guests":      {head, refusal.Malformed, "f:3:1", "no value"},
		"guests as a map":  {head + "  web: {}\n", refusal.Malformed, "f:4:3", "not a list"},
		"guest as text":    {head + "  - web\n", refusal.Malformed, "f:4:5", "not a map"},
		"unknown key":      {"apiVersion: gated/v1\nhost: h\nguests: []\nextra: 1\n", refusal.Malformed, "f:4:1", "unknown key extra"},
		"no name":          {head + "  - state: running\n", refusal.Malformed, "f:4:5", "name is missing"},
		"name 010":         {head + "  - name: 010\n", refusal.Malformed, "f:4:11", "put it in quotes"},
		"path as name":     {head + "  - name: ../etc\n", refusal.Malformed, "f:4:11", "not allowed"},
		"homoglyph":        {head + "  - name: wеb\n", refusal.Malformed, "f:4:11", "not allowed"},
		"two names":        {head + "  - name: [a, b]\n", refusal.Malformed, "f:4:11", "not text"},
		"twice":            {head + "  - {name: a}\n  - {name: a}\n", refusal.Malformed, "f:5:5", "twice, first in line 4"},
		"state":            {head + "  - {name: a, state: gone}\n", refusal.Malformed, "f:4:22", "must be running"},
		"empty state":      {head + "  - {name: a, state: \"\"}\n", refusal.Malformed, "f:4:22", "must be running"},
		"absent, memory":   {head + "  - {name: a, state: absent, memory: 1MiB}\n", refusal.Malformed, "f:4:38", "no memory"},
		"absent protected": {head + "  - {name: a, protected: true, state: absent}\n", refusal.Malformed, "f:4:26", "no protected"},
		"memory number":    {head + "  - {name: a, memory: 512}\n", refusal.Malformed, "f:4:23", "memory is not text"},
		"memory MB":        {head + "  - {name: a, memory: 512MB}\n", refusal.Malformed, "f:4:23", "512MiB"},
		"memory fraction":  {head + "  - {name: a, memory: 1.5GiB}\n", refusal.Malformed, "f:4:23", "512MiB"},
		"memory zero":      {head + "  - {name: a, memory: 0MiB}\n", refusal.Malformed, "f:4:23", "512MiB"},
		"memory octal":     {head + "  - {name: a, memory: 0512MiB}\n", refusal.Malformed, "f:4:23", "512MiB"},
		"memory sign":      {head + "  - {name: a, memory: +5MiB}\n", refusal.Malformed, "f:4:23", "512MiB"},
		"memory too much":  {head + "  - {name: a, memory: 65TiB}\n", refusal.Malformed, "f:4:23", "outside"},
		"memory overflow":  {head + "  - {name: a, memory: 9007199254740991TiB}\n", refusal.Malformed, "f:4:23", "512MiB"},
		"cpus fraction":    {head + "  - {name: a, cpus: 2.7}\n", refusal.Malformed, "f:4:21", "whole number"},
		"cpus zero":        {head + "  - {name: a, cpus: 0}\n", refusal.Malformed, "f:4:21", "outside"},
		"cpus too many":    {head + "  - {name: a, cpus: 4097}\n", refusal.Malformed, "f:4:21", "outside"},
		"protected yes":    {head + "  - {name: a, protected: yes}\n", refusal.Malformed, "f:4:26", "neither true nor false"},
		"command path":     {head + "  - {name: a, command: /bin/sh}\n", refusal.Malformed, "f:4:24", "not a name"},
		"command list":     {head + "  - {name: a, command: [sh]}\n", refusal.Malformed, "f:4:24", "not text"},
		"label number":     {head + "  - {name: a, labels: {b: 1}}\n", refusal.Malformed, "f:4:27", "label b"},
		"label name":       {head + "  - {name: a, labels: {\"b c\": x}}\n", refusal.Malformed, "f:4:31", "label's name"},
		"label depth":      {head + "  - {name: a, labels: {b: {c: d}}}\n", refusal.Malformed, "f:4:27", "not text"},
		"anchor":           {head + "  - &x {name: a}\n", refusal.Malformed, "f:4:5", "anchor"},

		"scratch":     {head + "  - {name: a, scratch: true}\n", refusal.BadParams, "f:4:15", "unknown key scratch"},
		"provenance":  {head + "  - {name: a, provenance: {}}\n", refusal.BadParams, "f:4:15", "unknown key provenance"},
		"created_by":  {head + "  - {name: a, created_by: hub}\n", refusal.BadParams, "f:4:15", "unknown key created_by"},
		"class":       {head + "  - {name: a, class: benign}\n", refusal.BadParams, "f:4:15", "unknown key class"},
		"benign":      {head + "  - {name: a, benign: true}\n", refusal.BadParams, "f:4:15", "unknown key benign"},
		"incarnation": {head + "  - {name: a, incarnation: x}\n", refusal.BadParams, "f:4:15", "unknown key incarnation"},
		"Protected":   {head + "  - {name: a, Protected: true}\n", refusal.BadParams, "f:4:15", "unknown key Protected"},
		"user":        {head + "  - {name: a, user: root}\n", refusal.NotAllowed, "f:4:15", "unknown key user"},
		"environment": {head + "  - {name: a, environment: {A: b}}\n", refusal.NotAllowed, "f:4:15", "unknown key environment"},
		"mounts":      {head + "  - {name: a, mounts: [/]}\n", refusal.NotAllowed, "f:4:15", "unknown key mounts"},
		"disk":        {head + "  - {name: a, disk: /dev/sda}\n", refusal.NotAllowed, "f:4:15", "unknown key disk"},
		"argv":        {head + "  - {name: a, argv: [sh]}\n", refusal.NotAllowed, "f:4:15", "unknown key argv"},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := desired.Parse("f", []byte(c.src))
			var r *refusal.Refusal
			require.ErrorAs(t, err, &r)
			require.Equal(t, c.code, r.Code, r.Detail)
			require.True(t, strings.HasPrefix(r.Detail, c.at+": "), r.Detail)
			require.Contains(t, r.Detail, c.msg)
			require.NotEmpty(t, r.Hint)
			require.Empty(t, doc.Guests, "nothing of a refused document is taken")
		})
	}
}

func TestRefusalShowsTheLine(t *testing.T) {
	_, err := desired.Parse("site.yaml", []byte(strings.Replace(whole, "cpus: 2", "cpus: 2.7", 1)))
	require.EqualError(t, err, "malformed: site.yaml:7:11: cpus is not a whole number, in: cpus: 2.7")
}

// The entries are no guests, so that the test does not spend its time on them:
// at the limit they are what is wrong, above it their number is.
func TestGuestsAtAndAboveTheLimit(t *testing.T) {
	doc := func(n int) []byte {
		return []byte("apiVersion: gated/v1\nhost: h\nguests: [" + strings.Repeat("x,", n) + "]\n")
	}
	must.Fail(desired.Parse("f", doc(desired.MaxGuests)))(t, refusal.Malformed)
	must.Fail(desired.Parse("f", doc(desired.MaxGuests+1)))(t, refusal.Oversized)
}

// seeds are the valid documents that the fuzz and truncation tests start from.
func seeds(tb testing.TB) map[string][]byte {
	paths := must.Get(filepath.Glob("testdata/valid/*.yaml"))(tb)
	require.NotEmpty(tb, paths)
	out := map[string][]byte{"whole": []byte(whole)}
	for _, p := range paths {
		out[p] = must.Get(os.ReadFile(p))(tb)
	}
	return out
}

func FuzzParse(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		doc, err := desired.Parse("f", b)
		if err != nil {
			require.IsType(t, (*refusal.Refusal)(nil), err)
			return
		}
		for _, g := range doc.Guests {
			require.NoError(t, op.CheckName(g.Name))
			spec := must.Get(op.Lookup("guest.set-config"))(t)
			require.NoError(t, spec.Check(g.Target(), g.Fields))
			require.False(t, g.State == desired.Absent && len(g.Fields) > 0)
		}
		checkTruncation(t, b)
	})
}

// The bound on values, which keeps the tree small, is above what guests need.
func TestManyGuestsAreWithinTheBoundOnValues(t *testing.T) {
	for n, guest := range map[int]string{
		10_000: "  - name: g%d\n    state: running\n    memory: 512MiB\n    cpus: 2\n    command: web\n    protected: true\n" +
			"    labels:\n      tier: prod\n      site: a\n",
		desired.MaxGuests: "  - name: g%d\n    state: running\n",
	} {
		var b strings.Builder
		b.WriteString("apiVersion: gated/v1\nhost: h\nguests:\n")
		for i := range n {
			fmt.Fprintf(&b, guest, i)
		}
		require.Len(t, must.Get(desired.Parse("f", []byte(b.String())))(t).Guests, n)
	}
	scalars := "apiVersion: gated/v1\nhost: h\nguests: [" + strings.Repeat("a,", 1_000_000) + "]\n"
	must.Fail(desired.Parse("f", []byte(scalars)))(t, refusal.Oversized, "two bytes each, and 200 in the tree")
}
