package message

import (
	"html"
	"strings"
	"unicode/utf8"

	"gated/client/api"
)

// most is the most runes of a chat message. Telegram takes 4,096 and ntfy 4,096 bytes.
const most = 3500

// slackBlocks is a message for Slack. The elements of rich text are literal: Slack parses neither links nor mentions nor
// markup in them. It parses text, which old clients and notifications show, so text is escaped.
type slackMessage struct {
	Text        string       `json:"text"`
	Blocks      []slackBlock `json:"blocks"`
	UnfurlLinks bool         `json:"unfurl_links"`
	UnfurlMedia bool         `json:"unfurl_media"`
}

type slackBlock struct {
	Type     string         `json:"type"` // rich_text
	Elements []slackSection `json:"elements"`
}

type slackSection struct {
	Type     string      `json:"type"` // rich_text_section
	Elements []slackText `json:"elements"`
}

type slackText struct {
	Type  string      `json:"type"` // text
	Text  string      `json:"text"`
	URL   string      `json:"url,omitempty"` // of the type link
	Style *slackStyle `json:"style,omitempty"`
}

type slackStyle struct {
	Bold bool `json:"bold,omitzero"`
	Code bool `json:"code,omitzero"`
}

// slackEscape replaces the three characters with which Slack's markup begins and ends.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Slack returns the body of a call of a Slack incoming webhook.
func (m Message) Slack() ([]byte, error) {
	lines := []slackSection{{"rich_text_section", []slackText{{Type: "text", Text: Defang(m.Title) + "\n", Style: &slackStyle{Bold: true}}}}}
	for _, r := range m.chatRows() {
		var e []slackText
		if r.name != "" {
			e = append(e, slackText{Type: "text", Text: Defang(r.name) + ": "})
		}
		text := slackText{Type: "text", Text: r.shown()}
		switch r.form {
		case plain:
		case link:
			text.Type, text.URL = "link", r.text
		default:
			text.Style = &slackStyle{Code: true}
		}
		lines = append(lines, slackSection{"rich_text_section", append(e, text, slackText{Type: "text", Text: "\n"})})
	}
	return api.Encode(slackMessage{Text: slackEscape.Replace(Defang(m.Title)), Blocks: []slackBlock{{"rich_text", lines}}})
}

// chatRows are the rows with noReply, as many as fit into most.
func (m Message) chatRows() []row {
	rows, left := m.rows(), most-utf8.RuneCountInString(noReply)
	for i, r := range rows {
		if left -= utf8.RuneCountInString(r.name) + utf8.RuneCountInString(r.shown()) + 3; left < 0 {
			rows = append(rows[:i:i], row{"", "more is left out: gated jobs and opsign show have it", plain})
			break
		}
	}
	if m.Request != nil && len(m.Request.Commands) > 0 {
		rows = append(rows, row{"", noReply, plain})
	}
	return rows
}

// html returns the message in the few elements that Matrix and Telegram both have. Others' words stand in code, in which
// both make neither links nor mentions.
func (m Message) html(lineEnd string) string {
	var b strings.Builder
	b.WriteString("<b>" + escapeHTML(Defang(m.Title)) + "</b>" + lineEnd)
	for _, r := range m.chatRows() {
		if r.name != "" {
			b.WriteString(escapeHTML(Defang(r.name)) + ": ")
		}
		switch text := escapeHTML(r.shown()); r.form {
		case plain:
			b.WriteString(text)
		case block:
			b.WriteString("<pre>" + text + "</pre>")
		case link:
			b.WriteString(`<a href="` + text + `">` + text + "</a>")
		default:
			b.WriteString("<code>" + text + "</code>")
		}
		b.WriteString(lineEnd)
	}
	return b.String()
}

func escapeHTML(s string) string { return strings.ReplaceAll(html.EscapeString(s), "&#39;", "'") }

type matrixMessage struct {
	Type      string         `json:"msgtype"`
	Body      string         `json:"body"`
	Format    string         `json:"format"`
	Formatted string         `json:"formatted_body"`
	Mentions  map[string]any `json:"m.mentions"` // empty: clients look for no mention in the text
}

// Matrix returns the content of an m.room.message event. A notice is what programs send, and other programs do not
// answer it.
func (m Message) Matrix() ([]byte, error) {
	return api.Encode(matrixMessage{"m.notice", m.Text(), "org.matrix.custom.html", m.html("<br>"), map[string]any{}})
}

type telegramMessage struct {
	Chat    string          `json:"chat_id"`
	Text    string          `json:"text"`
	Parse   string          `json:"parse_mode"`
	Preview telegramPreview `json:"link_preview_options"`
}

type telegramPreview struct {
	Disabled bool `json:"is_disabled"`
}

// Telegram returns the body of a call of the Bot API's sendMessage. HTML needs three escapes, MarkdownV2 eighteen.
func (m Message) Telegram(chat string) ([]byte, error) {
	return api.Encode(telegramMessage{chat, m.html("\n"), "HTML", telegramPreview{true}})
}

type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	Type    string    `json:"contentType"`
	URL     *string   `json:"contentUrl"`
	Content teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string       `json:"$schema"`
	Type    string       `json:"type"`
	Version string       `json:"version"`
	Body    []teamsBlock `json:"body"`
}

type teamsBlock struct {
	Type    string      `json:"type"` // RichTextBlock
	Inlines []teamsText `json:"inlines"`
}

type teamsText struct {
	Type   string `json:"type"` // TextRun
	Text   string `json:"text"`
	Weight string `json:"weight,omitempty"`
	Font   string `json:"fontType,omitempty"`
}

// Teams returns the body of a call of a Teams workflow: an Adaptive Card. A TextRun has no Markdown, unlike a TextBlock.
func (m Message) Teams() ([]byte, error) {
	body := []teamsBlock{{"RichTextBlock", []teamsText{{"TextRun", Defang(m.Title), "Bolder", ""}}}}
	for _, r := range m.chatRows() {
		var runs []teamsText
		if r.name != "" {
			runs = append(runs, teamsText{Type: "TextRun", Text: Defang(r.name) + ": "})
		}
		text := teamsText{Type: "TextRun", Text: r.shown()}
		if r.form != plain {
			text.Font = "Monospace"
		}
		body = append(body, teamsBlock{"RichTextBlock", append(runs, text)})
	}
	card := teamsCard{"http://adaptivecards.io/schemas/adaptive-card.json", "AdaptiveCard", "1.4", body}
	return api.Encode(teamsMessage{"message", []teamsAttachment{{"application/vnd.microsoft.card.adaptive", nil, card}}})
}
