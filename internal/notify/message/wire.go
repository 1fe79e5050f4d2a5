package message

import (
	"time"
	"unicode/utf8"

	"gated/client/api"
)

// event is a CloudEvent (CloudEvents 1.0.2, JSON format, section 3): structured content mode.
type event struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject,omitempty"`
	Time        time.Time `json:"time"`
	ContentType string    `json:"datacontenttype"`
	Data        Message   `json:"data"`
}

// EventContentType is the media type of CloudEvent's result.
const EventContentType = "application/cloudevents+json"

// CloudEvent returns the message as a CloudEvent. Its source is urn:gated:GATEID.
func (m Message) CloudEvent() ([]byte, error) {
	e := event{SpecVersion: "1.0", ID: m.ID, Source: "urn:gated:" + m.Gate, Type: "gated." + string(m.Kind) + ".v1", Time: m.At,
		ContentType: "application/json", Data: m}
	if m.Request != nil {
		e.Subject = m.Request.ID
	}
	return api.Encode(e)
}

// JSON returns the message as one line of JSON.
func (m Message) JSON() ([]byte, error) { return api.Encode(m) }

// Parse reads JSON's result.
func Parse(b []byte) (Message, error) {
	var m Message
	return m, api.DecodeAnswer(b, &m)
}

type ntfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags"`
}

// ntfyBytes is the most bytes of a message. ntfy makes an attachment of a message above 4,096.
const ntfyBytes = 3800

// Ntfy returns the body of a call that publishes to a topic (https://docs.ntfy.sh/publish/, "Publish as JSON"). It has
// neither a click nor actions, because nothing in a message may decide.
func (m Message) Ntfy(topic string) ([]byte, error) {
	priority, tag := 3, "bell"
	switch {
	case m.Kind == Alarm:
		priority, tag = 5, "rotating_light"
	case m.Urgent:
		priority, tag = 4, "lock"
	case m.Kind.Ends():
		priority, tag = 2, "heavy_check_mark"
	}
	return api.Encode(ntfyMessage{topic, Defang(m.Title), cutBytes(m.Body(), ntfyBytes), priority, []string{tag, string(m.Kind)}})
}

// cutBytes cuts a text to at most n bytes at the end of a rune.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len(cut)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cut
}
