package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

const proofGate = op.GateID("0123456789abcdef0123456789abcdef")

// proven is the proof of the one entry of a log, and the key that signed it.
func proven(t require.TestingT, entry string) proof {
	k := must.Get(checkpoint.NewKey(proofGate))(t)
	root := tlog.RecordHash([]byte(entry))
	note := must.Get(checkpoint.Checkpoint{Gate: proofGate, Size: 1, Root: root}.Sign(k))(t)
	return proof{Type: proofType, Seq: 1, Entry: entry, Proof: []string{}, Note: note, Key: k.Public}
}

func TestOneFieldOfAProofWrong(t *testing.T) {
	good := proven(t, numbered(1)[0])
	head, e := must.Two(good.check())(t)
	require.EqualValues(t, 1, head.Size)
	require.Equal(t, "started", e.Kind)
	text := must.Get(api.Encode(good))(t)
	require.Equal(t, good, must.Get(parseProof(text))(t))

	for name, c := range map[string]struct {
		code refusal.Code
		edit func(*proof)
	}{
		"type":             {refusal.Malformed, func(p *proof) { p.Type = "gated/audit-proof/v2" }},
		"number":           {refusal.BindingMismatch, func(p *proof) { p.Seq = 2 }},
		"entry":            {refusal.BindingMismatch, func(p *proof) { p.Entry = strings.Replace(p.Entry, "started", "stopped", 1) }},
		"more proof":       {refusal.BindingMismatch, func(p *proof) { p.Proof = []string{tlog.Hash{}.String()} }},
		"no hash":          {refusal.Malformed, func(p *proof) { p.Proof = []string{"x"} }},
		"note":             {refusal.BadSignature, func(p *proof) { p.Note = strings.Replace(p.Note, "\n1\n", "\n2\n", 1) }},
		"no note":          {refusal.BadSignature, func(p *proof) { p.Note = "" }},
		"key":              {refusal.BadSignature, func(p *proof) { p.Key = proven(t, "x").Key }},
		"no key":           {refusal.Malformed, func(p *proof) { p.Key = "" }},
		"entry's own":      {refusal.Malformed, func(p *proof) { *p = proven(t, numbered(2)[0]) }},
		"what is no entry": {refusal.Malformed, func(p *proof) { *p = proven(t, "x") }},
	} {
		bad := good
		c.edit(&bad)
		_, _, err := bad.check()
		require.ErrorIs(t, err, c.code, name)
	}
	for name, text := range map[string]string{"more members": `{"x":1}`, "two": string(text) + string(text), "null": `{"key":null}`} {
		must.Fail(parseProof([]byte(text)))(t, refusal.Malformed, name)
	}
}

// What an entry says is shown so that it cannot pass for words of ours.
func TestAProofIsShownSafely(t *testing.T) {
	p := proven(t, `{"seq":1,"time":"2026-01-02T03:04:05Z","kind":"refused","detail":"a\u001b[2Jb\u202ec"}`)
	text := must.Get(api.Encode(p))(t)
	path := filepath.Join(t.TempDir(), "p")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	var out bytes.Buffer
	tl := testTool()
	tl.Stdout = &out
	require.Zero(t, tl.run(t.Context(), []string{"audit", "check", path}))
	require.Contains(t, out.String(), `"a\x1b[2Jb\u202ec"`)
	require.NotContains(t, out.String(), "\x1b")
}

// Progress is for a terminal, and not for what is done at once.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	p := progressOn(&out, func() time.Time { return at })
	at = at.Add(time.Hour)
	p.show(1, 2)
	p.end()
	require.Empty(t, out.String(), "no terminal")

	at = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	p = progressOn(io.Discard, func() time.Time { return at })
	p.to = &out
	p.show(1, 9)
	p.end()
	require.Empty(t, out.String(), "done within a second")
	at = at.Add(time.Second)
	p.show(2, 9)
	p.show(3, 9)
	at = at.Add(time.Second)
	p.show(4, 9)
	p.end()
	require.Equal(t, "\r2 of 9 entries\r4 of 9 entries\r\x1b[K", out.String())
}

func FuzzParseProof(f *testing.F) {
	good := must.Get(api.Encode(proven(f, numbered(1)[0])))(f)
	f.Add(good)
	f.Add([]byte(`{"type":"gated/audit-proof/v1","seq":1,"entry":"{}","proof":[],"note":"","key":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parseProof(text)
		if err != nil {
			require.NotEqual(t, refusal.Internal, refusal.CodeOf(err))
			return
		}
		if head, e, err := p.check(); err == nil {
			require.NoError(t, head.Includes(e.Seq, []byte(p.Entry), nil), "the seed is all that is signed")
		}
	})
}

func FuzzLastEntry(f *testing.F) {
	f.Add(strings.Join(numbered(1, 2), "\n") + "\n")
	f.Add(numbered(1)[0] + "\n" + `{"seq":`)
	f.Fuzz(func(t *testing.T, text string) {
		e, end, err := last(t, text)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.Equal(t, e == nil, text == "")
		require.True(t, end == 0 || text[end-1] == '\n')
		require.NotContains(t, text[end:], "\n")
	})
}
