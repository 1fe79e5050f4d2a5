package message_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/notify/message"
	"gated/internal/test/must"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// request waits for alice, and has a text wherever a requester or a guest can put one.
func request(text string) api.Request {
	return api.Request{ID: "j5.1", Job: "j5", Op: "guest.destroy", Host: "pve1", Gate: "0123456789abcdef0123456789abcdef", Target: "guest/db",
		State: api.StatePending, Why: "it was not made as scratch", RequestedBy: []string{"uid:1000"}, Reason: text,
		Reasons: []api.Reason{{By: "uid:1000", Text: text}}, Params: api.Params{"note": text}, Facts: []api.Fact{{Name: text, Text: text}},
		ExpiresAt: noon.Add(time.Hour), Missing: 1, Needed: 1,
		Demands: []api.Demand{{Roles: []op.Role{op.Operational}, Threshold: 1, Could: []string{"alice@example.com"}}}}
}

func about(text string, d message.Details) message.Message {
	r := request(text)
	m := message.Message{ID: string(r.Gate) + ":7", Thread: string(r.Gate) + ":j5.1", Kind: message.Waits, Gate: string(r.Gate), Host: "pve1",
		At: noon, Urgent: true, Title: "pve1: j5.1 guest.destroy guest/db waits for a signature",
		Request: message.About(r, d, []string{"opsign show j5.1", "opsign approve j5.1"})}
	m.Request.Printed(text, d)
	return m.Bounded()
}

// What waits, for whom, until when, and the line to type.
func TestText(t *testing.T) {
	require.Equal(t, `pve1: j5.1 guest.destroy guest/db waits for a signature

step: guest.destroy guest/db
why: it was not made as scratch
asked by: uid:1000
words of uid:1000: "not needed any more"
needs: 1 more of alice(at)example[.]com (operational)
until: 2026-03-01T13:00:00Z; then the gate issues new bytes to sign
type: opsign show j5.1
type: opsign approve j5.1

A reply to this message decides nothing: only a signature does.
`, about("not needed any more", message.NoDetails).Text())
}

// A name stands beside the uid, and says nothing but a name.
func TestNamesOfRequesters(t *testing.T) {
	m, r := about("old", message.NoDetails), request("old")
	r.RequestedBy = append(r.RequestedBy, "uid:1001", "agent:builder#7")
	r.Users = api.Users{"uid:1000": "alice.com", "uid:1001": "@channel", "agent:builder#7": "bob", "uid:2000": "carol"}
	m.Request = message.About(r, message.NoDetails, nil)
	require.Equal(t, api.Users{"uid:1000": "alice.com"}, m.Request.Users)
	text := m.Bounded().Text()
	require.Contains(t, text, "\nasked by: uid:1000 (alice[.]com), uid:1001, agent:builder#7\n")
	require.Contains(t, text, "\nwords of uid:1000 (alice[.]com): \"old\"\n")
	require.Contains(t, string(must.Get(api.Encode(m))(t)), `"users":{"uid:1000":"alice.com"}`)
}

// The link is an address in each product, and the only one.
func TestLink(t *testing.T) {
	const to = "https://console.example.com/g/0123456789abcdef0123456789abcdef/r/j5.1"
	m := about("see https://evil.example", message.NoDetails)
	m.Request.Link = to
	require.Contains(t, m.Text(), "\nor open: "+to+"\n")
	require.NotContains(t, m.Text(), "https://evil")
	require.Contains(t, string(must.Get(m.Slack())(t)), `{"type":"link","text":"`+to+`","url":"`+to+`"}`)
	for _, b := range [][]byte{must.Get(m.Matrix())(t), must.Get(m.Telegram("1"))(t)} {
		var said map[string]any
		decode(t, b, &said)
		require.Contains(t, fmt.Sprint(said), `or open: <a href="`+to+`">`+to+"</a>")
	}
	require.Contains(t, string(must.Get(m.Teams())(t)), to)
}

// Parameters, facts and output are for sinks that ask for them.
func TestDetails(t *testing.T) {
	none, params, all := about("s3cret", "none"), about("s3cret", "params"), about("s3cret", "all")
	require.Empty(t, none.Request.Params)
	require.Empty(t, none.Request.Facts)
	require.Empty(t, none.Request.Output)
	require.Equal(t, []message.Words{{Name: "note", Text: "s3cret"}}, params.Request.Params)
	require.Empty(t, params.Request.Facts)
	require.Empty(t, params.Request.Output)
	require.Len(t, all.Request.Facts, 1)
	require.Equal(t, "s3cret", all.Request.Output)
	no := request("x")
	no.Reason, no.Reasons = "", nil
	b := must.Get(message.Message{Request: message.About(no, "none", nil)}.JSON())(t)
	require.NotContains(t, string(b), "note")
}

// hostile has what each product would make something of.
var hostile = []string{
	"<!channel> <@U123> <https://evil.example|approve>",
	"@channel @here @room",
	"*bold* _it_ `code` ```block``` [approve](https://evil.example) ~x~ > quote # head",
	"</code></pre><a href=\"https://evil.example\">approve</a><script>alert(1)</script>",
	"&lt;b&gt; &amp; \" ' \\ \\\" {{template}} ${x} %s %n",
	"x\r\nBcc: all@example.com\r\n\r\nopsign approve j9.1",
	"ok\"}]}, {\"type\":\"mrkdwn\",\"text\":\"<!everyone>\"",
	"\u202eevorppa\u202c \u200b\u2066\u2069 \x1b[31m \x00",
	"type: opsign approve j9.1",
	"tg://resolve?domain=evil www.evil.example /start@bot #tag $TAG mailto:a@evil.example",
	strings.Repeat("A", 100_000),
	strings.Repeat("\U0001F600", 5000),
	"\xff\xfe\xfd",
}

// The form of no product has a link, a mention, markup or a line of others' words.
func TestHostileWords(t *testing.T) {
	for _, text := range hostile {
		checkForms(t, about(text, message.AllDetails), text)
	}
}

func FuzzForms(f *testing.F) {
	for _, text := range hostile {
		if len(text) < 1000 { // large ones are slow to change
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean := message.Clean(text, 50)
		require.LessOrEqual(t, utf8.RuneCountInString(clean), 50)
		require.Equal(t, clean, message.Clean(clean, 50), "cleaned once is clean")
		checkForms(t, about(text, message.AllDetails), text)
	})
}

var (
	link    = regexp.MustCompile(`://|@|[\pL\pN_-]\.[\pL]{2}`)
	allowed = regexp.MustCompile(`(?i)</?(b|code|pre)>|<br>`)
)

// checkForms checks each form of a message with hostile words.
func checkForms(t *testing.T, m message.Message, text string) {
	t.Helper()
	b := must.Get(m.Slack())(t)
	texts := literals(t, b)
	require.LessOrEqual(t, utf8.RuneCountInString(strings.Join(texts, "")), 4000)
	top := struct {
		Text string `json:"text"`
	}{}
	require.NoError(t, json.Unmarshal(b, &top))
	require.NotRegexp(t, `[<>]`, top.Text, "of %q", text)
	noLinks(t, texts)

	b = must.Get(m.Teams())(t)
	require.NotContains(t, string(b), `"TextBlock"`, "it would read Markdown")
	noLinks(t, literals(t, b))

	var telegram struct{ Text string }
	decode(t, must.Get(m.Telegram("-100"))(t), &telegram)
	require.LessOrEqual(t, utf8.RuneCountInString(telegram.Text), 4096)
	balanced(t, telegram.Text)
	noLinks(t, strings.Split(telegram.Text, "\n"))

	var matrix struct {
		Body     string
		HTML     string         `json:"formatted_body"`
		Mentions map[string]any `json:"m.mentions"`
	}
	decode(t, must.Get(m.Matrix())(t), &matrix)
	balanced(t, matrix.HTML)
	require.NotNil(t, matrix.Mentions)
	noLinks(t, append(strings.Split(matrix.HTML, "<br>"), strings.Split(matrix.Body, "\n")...))

	var ntfy struct {
		Topic, Title, Message string
		Actions, Click        any
		Priority              int
	}
	decode(t, must.Get(m.Ntfy("alerts"))(t), &ntfy)
	require.LessOrEqual(t, len(ntfy.Message), 4096)
	require.Nil(t, ntfy.Actions)
	require.Nil(t, ntfy.Click)
	noLinks(t, strings.Split(ntfy.Message, "\n"))

	for _, line := range strings.Split(m.Text(), "\n") {
		if rest, ok := strings.CutPrefix(line, "type: "); ok {
			require.Contains(t, []string{"opsign show j5.1", "opsign approve j5.1"}, rest, "a line to type of others' words: %q", text)
		}
	}
	again := must.Get(message.Parse(must.Get(m.JSON())(t)))(t)
	require.Equal(t, must.Get(m.JSON())(t), must.Get(again.JSON())(t))
	event := map[string]any{}
	decode(t, must.Get(m.CloudEvent())(t), &event)
	for _, name := range []string{"specversion", "id", "source", "type", "time", "data"} {
		require.NotEmpty(t, event[name], name)
	}
}

// noLinks fails if a product could make a link or a mention, and for text that does not show.
func noLinks(t *testing.T, texts []string) {
	t.Helper()
	for _, s := range texts {
		require.True(t, utf8.ValidString(s))
		require.False(t, strings.ContainsFunc(s, func(r rune) bool { return op.Hidden(r) && r != '\n' && r != '\ufffd' }), "%q", s)
		s = allowed.ReplaceAllString(s, "")
		for _, spec := range op.Catalogue() {
			s = strings.ReplaceAll(s, spec.Name, "") // gated's own, and no host
		}
		require.False(t, link.MatchString(s), "%q", s)
	}
}

// balanced fails unless the only markup is ours.
func balanced(t *testing.T, s string) {
	t.Helper()
	rest := allowed.ReplaceAllString(s, "")
	require.NotRegexp(t, `[<>]`, rest)
	d := xml.NewDecoder(strings.NewReader("<m>" + strings.ReplaceAll(s, "<br>", "") + "</m>"))
	d.Entity = map[string]string{"quot": `"`, "#34": `"`, "#39": "'"}
	for {
		if _, err := d.Token(); err != nil {
			require.True(t, errors.Is(err, io.EOF), "%v in %q", err, s)
			return
		}
	}
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(b, v, json.MatchCaseInsensitiveNames(true)))
}

// literals returns every member "text" below blocks and cards.
func literals(t *testing.T, b []byte) (out []string) {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal(b, &v))
	var walk func(any, string)
	walk = func(v any, in string) {
		switch v := v.(type) {
		case map[string]any:
			if s, ok := v["text"].(string); ok && v["type"] != nil {
				require.Contains(t, []any{"text", "TextRun"}, v["type"])
				out = append(out, s)
			}
			for _, e := range v {
				walk(e, in)
			}
		case []any:
			for _, e := range v {
				walk(e, in)
			}
		}
	}
	walk(v, "")
	require.NotEmpty(t, out)
	return out
}

func FuzzStored(f *testing.F) {
	f.Add(must.Get(about("x", message.AllDetails).JSON())(f))
	f.Add([]byte(`{"id":"a:1","request":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := message.Parse(b)
		if err != nil {
			return
		}
		first := must.Get(m.JSON())(t)
		again := must.Get(message.Parse(first))(t)
		require.Equal(t, first, must.Get(again.JSON())(t))
	})
}
