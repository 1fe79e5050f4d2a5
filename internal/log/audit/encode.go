package audit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// encode returns the text of an entry, in the version of this program. It is what json.Marshal makes of stored. Reflection
// over all members costs more than the rest of an Append, and most entries have few. A test compares the two.
func (e Entry) encode() ([]byte, error) {
	w := writer{make([]byte, 0, 1024), nil}
	w.b = append(w.b, `{"seq":`...)
	w.b = strconv.AppendInt(w.b, e.Seq, 10)
	w.number("v", version)
	w.time("time", e.Time)
	w.name("kind")
	w.quote(string(e.Kind))
	w.text("by", e.By)
	w.number("pid", int64(e.PID))
	w.text("job", e.Job)
	w.text("step", e.Step)
	w.text("op", e.Op)
	w.text("target", e.Target)
	w.text("incarnation", string(e.Incarnation))
	w.text("class", string(e.Class))
	w.text("rule", e.Rule)
	w.text("why", e.Why)
	if len(e.Params) > 0 {
		w.name("params")
		w.b = append(w.b, e.Params.Canonical()...)
	}
	w.text("reason", e.Reason)
	w.text("code", string(e.Code))
	w.text("stage", string(e.Stage))
	w.text("detail", e.Detail)
	w.text("payload_sha256", e.Payload)
	w.texts("signers", e.Signers)
	w.texts("keys", e.Keys)
	w.text("need", e.Need)
	w.number("count", int64(e.Count))
	w.object("made", e.Made, e.Made != nil)
	w.reservation(e)
	w.text("policy", e.Policy)
	w.text("revoked", e.Revoked)
	w.object("revokes", e.Revokes, e.Revokes != nil)
	w.text("version", e.Version)
	w.number("schema", int64(e.Schema))
	w.number("change", e.Change)
	w.text("verdict", e.Verdict)
	w.parts(e.Parts)
	w.text("gate", string(e.Gate))
	w.name("prev")
	w.quote(e.Prev)
	if w.err != nil {
		return nil, fmt.Errorf("encode audit entry: %w", w.err)
	}
	return append(w.b, '}'), nil
}

func (w *writer) reservation(e Entry) {
	w.text("reservation", e.Reservation)
	w.texts("patterns", e.Patterns)
	w.number("of", int64(e.Of))
	w.text("mode", e.Mode)
	w.text("holder", e.Holder)
	if !e.Until.IsZero() {
		w.time("until", e.Until)
	}
	w.texts("for", e.For)
}

func (w *writer) parts(p Parts) {
	w.object("signers_file", p.SignersFile, p.SignersFile != SignersFile{})
	w.object("edited", true, p.Edited)
	w.text("head_key", p.HeadKey)
	w.text("shown_sha256", p.ShownSHA256)
	w.text("output_sha256", p.OutputSHA256)
	w.texts("incidents", p.Incidents)
	w.text("undoes", p.Undoes)
	w.object("set", p.Set, p.Set != Set{})
	w.object("registration", p.Registration, p.Registration != Registration{})
	w.object("ended", p.Ended, p.Ended != Ended{})
	w.object("member", p.Member, p.Member != Member{})
	w.object("segment", p.Segment, p.Segment != SegmentPart{})
	w.object("in_force", p.InForce, p.InForce != InForce{})
	w.texts("revoked_keys", p.RevokedKeys)
	w.object("rejection", p.Rejection, !p.Rejection.none())
}

// writer appends members to an object. It leaves out empty ones.
type writer struct {
	b   []byte
	err error // the first
}

func (w *writer) name(name string) {
	w.b = append(w.b, `,"`...)
	w.b = append(w.b, name...)
	w.b = append(w.b, `":`...)
}

// quote appends a string. A back end's text may be invalid UTF-8: the quoted text then has U+FFFD, and the error only
// says so.
func (w *writer) quote(s string) { w.b, _ = jsontext.AppendQuote(w.b, s) }

func (w *writer) text(name, s string) {
	if s != "" {
		w.name(name)
		w.quote(s)
	}
}

func (w *writer) number(name string, n int64) {
	if n != 0 {
		w.name(name)
		w.b = strconv.AppendInt(w.b, n, 10)
	}
}

func (w *writer) texts(name string, all []string) {
	for i, s := range all {
		if i == 0 {
			w.name(name)
			w.b = append(w.b, '[')
		} else {
			w.b = append(w.b, ',')
		}
		w.quote(s)
	}
	if len(all) > 0 {
		w.b = append(w.b, ']')
	}
}

// time appends a time as RFC 3339 has it.
func (w *writer) time(name string, t time.Time) {
	w.name(name)
	text, err := t.MarshalText()
	w.fail(err)
	w.b = append(append(append(w.b, '"'), text...), '"')
}

// object appends a value that few entries have.
func (w *writer) object(name string, v any, there bool) {
	if !there {
		return
	}
	text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	w.fail(err)
	if string(text) != "{}" {
		w.name(name)
		w.b = append(w.b, text...)
	}
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}
