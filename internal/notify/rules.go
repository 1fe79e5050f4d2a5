package notify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
	"gated/internal/notify/settings"
)

// lettersOf returns what an entry has notify say, and which request is over.
func (n *Notifier) lettersOf(ctx context.Context, e api.Entry) (out []outbox.Letter, ended string, err error) {
	if signedBy(e, op.Recovery) {
		out = n.alarmLetters(alarm{"recovery", "a recovery key was used",
			strings.TrimSpace(e.Kind + " " + e.Step + " " + e.Op + " by " + strings.Join(people(e), ", "))}, n.mid(e)+":recovery", message.Alarm)
	}
	if e.Step == "" {
		return out, "", nil
	}
	if (e.Kind == "signed" || e.Kind == "approved") && signedBy(e, op.BreakGlass) {
		alarms, err := n.brokeGlass(ctx, e)
		if err != nil {
			return nil, "", err
		}
		out = append(out, alarms...)
	}
	switch e.Kind {
	case "requested", "joined", "reissued", "signed", "uncounted", "withdrawn":
		more, err := n.open(ctx, e)
		return append(out, more...), "", err
	case "approved", "rejected", "cancelled", "superseded", "expired", "refused", "succeeded", "failed", "interrupted":
		more, over, err := n.decided(ctx, e)
		if over {
			ended = e.Step
		}
		return append(out, more...), ended, err
	}
	return out, "", nil
}

// brokeGlass returns the alarm about a signature of break-glass, for every sink.
func (n *Notifier) brokeGlass(ctx context.Context, e api.Entry) ([]outbox.Letter, error) {
	r, ok, err := n.request(ctx, e.Step)
	if err != nil {
		return nil, err
	}
	a := alarm{name: "breakglass", title: "BREAK-GLASS was used for " + e.Step + " " + e.Op + " " + e.Target,
		detail: "signed by " + strings.Join(people(e), ", ")}
	if e.Kind == "approved" && ok && r.RunsAt != nil {
		a.detail += fmt.Sprintf("; it runs at %s, and until then any operator stops it: opsign reject %s --reason TEXT", r.RunsAt.Format(time.RFC3339), e.Step)
	}
	return n.lettersTo(n.is.Sinks, a, n.mid(e)+":breakglass", message.Alarm), nil
}

// open returns what to say about a request that may still wait.
func (n *Notifier) open(ctx context.Context, e api.Entry) ([]outbox.Letter, error) {
	r, ok, err := n.request(ctx, e.Step)
	if err != nil || !ok || r.State != api.StatePending {
		return nil, err // if it ended meanwhile, the entry of its end follows
	}
	told, err := n.box.Told(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	out := n.asks(r, n.mid(e), told)
	if e.Kind != "signed" {
		return out, nil
	}
	for _, s := range n.is.Sinks {
		if _, ok := told[s.Name]; ok && !slices.ContainsFunc(out, func(l outbox.Letter) bool { return l.Sink == s.Name }) {
			m := n.about(r, s, message.Signed, n.mid(e))
			m.Title = n.titled(r, "was signed by "+names(e)+", and needs more")
			out = append(out, letter(s, m))
		}
	}
	return out, nil
}

// asks returns the messages that ask for signatures, to each sink that was not asked yet and whose people can sign, and
// the messages that tell the requesters that it waits.
func (n *Notifier) asks(r api.Request, mid string, told map[string]bool) []outbox.Letter {
	var out []outbox.Letter
	heard := false
	for _, s := range n.is.Sinks {
		asked, known := told[s.Name]
		heard = heard || asked
		switch {
		case !asked && !n.targets[s.Name] && canSign(s, r):
			heard = true
			m := n.about(r, s, message.Waits, mid)
			m.Title, m.Urgent = n.titled(r, "waits for a signature"), true
			l := letter(s, m)
			l.Asks = true
			if s.Escalate != nil {
				l.Next = &outbox.Escalation{Sink: s.Escalate.To, Due: n.now().Add(s.Escalate.After)}
			}
			out = append(out, l)
		case !known && asksFor(s, r):
			m := n.about(r, s, message.Waits, mid)
			m.Title = n.titled(r, "of yours waits for a signature")
			m.Request.Commands, m.Request.Link = nil, ""
			out = append(out, letter(s, m))
		}
	}
	if !heard {
		out = append(out, n.alarmLetters(alarm{"unheard", n.titled(r, "waits, and no sink is for a person who can sign it"),
			"see roles and principals in notify.yaml"}, mid+":unheard", message.Unheard)...)
	}
	return out
}

// decided returns what to say about an end, and whether the request is over.
func (n *Notifier) decided(ctx context.Context, e api.Entry) ([]outbox.Letter, bool, error) {
	told, err := n.box.Told(ctx, e.Step)
	if err != nil {
		return nil, false, err
	}
	if len(told) == 0 && !slices.ContainsFunc(n.is.Sinks, func(s settings.Sink) bool { return len(s.For) > 0 }) {
		return nil, e.Kind != "refused", nil
	}
	r, ok, err := n.request(ctx, e.Step)
	if err != nil || !ok {
		return nil, err == nil, err
	}
	over := !r.State.Open()
	if over == (e.Kind == "approved") {
		// A refused signature leaves the request open. An approved step that ended already has the entry of its end.
		return nil, over, nil
	}
	output := n.printed(ctx, r)
	var out []outbox.Letter
	for _, s := range n.is.Sinks {
		if _, ok := told[s.Name]; ok || asksFor(s, r) {
			m := n.about(r, s, message.Kind(e.Kind), n.mid(e))
			m.Title = n.titled(r, ending(e))
			m.Request.Commands, m.Request.Link = nil, ""
			if e.Kind == "rejected" {
				m.Request.ByWords = message.Clean(e.Detail, 400)
			}
			if len(e.Signers) > 0 {
				m.Request.By = people(e)
			}
			m.Request.Printed(output, s.Details)
			out = append(out, letter(s, m))
		}
	}
	return out, over, nil
}

// printed returns what a step printed, if a sink may get it.
func (n *Notifier) printed(ctx context.Context, r api.Request) string {
	if !slices.ContainsFunc(n.is.Sinks, func(s settings.Sink) bool { return s.Details == message.AllDetails }) {
		return ""
	}
	job, err := n.gate.Job(ctx, r.Job)
	if err != nil {
		return "" // the message is worth more than the output
	}
	for _, step := range job.Steps {
		if step.ID == r.ID {
			return step.Output
		}
	}
	return ""
}

// ending says how an entry ended a request.
func ending(e api.Entry) string {
	switch e.Kind {
	case "approved", "rejected":
		return "was " + e.Kind + " by " + names(e)
	case "cancelled":
		return "was withdrawn or cancelled"
	case "superseded":
		return "was superseded: its target is another one now"
	case "expired":
		return "expired"
	case "refused":
		return "was refused"
	case "succeeded":
		return "was done"
	case "failed":
		return "failed"
	}
	return "was interrupted: it may have been done"
}

// request reads a request; ok is false if the gate has none of that id.
func (n *Notifier) request(ctx context.Context, id string) (r api.Request, ok bool, err error) {
	r, err = n.gate.Request(ctx, id)
	if errors.Is(err, api.CodeUnknownTarget) || errors.Is(err, api.CodeMalformed) {
		return r, false, nil
	}
	r.Gate = api.GateID(n.cursor().Gate)
	return r, err == nil, err
}

// about begins a message about a request, for one sink.
func (n *Notifier) about(r api.Request, s settings.Sink, k message.Kind, mid string) message.Message {
	m := message.Message{ID: mid, Thread: string(r.Gate) + ":" + r.ID, Kind: k, Gate: string(r.Gate), Host: r.Host, At: n.now(),
		Request: message.About(r, s.Details, n.commands(r))}
	if n.is.Console != "" {
		m.Request.Link = n.is.Console + "/g/" + string(r.Gate) + "/r/" + url.PathEscape(r.ID)
	}
	return m
}

// commands are the lines to type about a request that waits.
func (n *Notifier) commands(r api.Request) []string {
	program := "opsign "
	if n.is.Reach != "" {
		program += "-H " + n.is.Reach + " "
	}
	return []string{program + "show " + r.ID, program + "approve " + r.ID}
}

func (n *Notifier) titled(r api.Request, what string) string {
	if r.Op == op.Drill {
		return "DRILL: nothing will be changed. " + r.Host + ": " + r.ID + " " + op.Rehearses(r.Params) + " " + what
	}
	return r.Host + ": " + r.ID + " " + r.Op + " " + r.Target + " " + what
}

// letter addresses a message about a request.
func letter(s settings.Sink, m message.Message) outbox.Letter {
	return outbox.Letter{Sink: s.Name, Message: m.Bounded(), Told: true, Storm: outbox.Storm{More: s.Digest.More, Within: s.Digest.Within}}
}

// canSign reports whether a person of the sink could still sign the request.
func canSign(s settings.Sink, r api.Request) bool {
	for _, d := range message.Open(r) {
		if slices.ContainsFunc(d.Roles, func(role op.Role) bool { return slices.Contains(s.Roles, role) }) ||
			slices.ContainsFunc(d.Could, func(name string) bool { return slices.Contains(s.Principals, name) }) {
			return true
		}
	}
	if r.State != api.StatePending {
		return false
	}
	// A new key owes a proof in its role: "SHA256:… operational".
	return slices.ContainsFunc(r.Owed, func(owed string) bool {
		fields := strings.Fields(owed)
		return len(fields) > 1 && slices.Contains(s.Roles, op.Role(fields[len(fields)-1]))
	})
}

// asksFor reports whether the sink is a requester's. An agent's name is followed by the number of its registration.
func asksFor(s settings.Sink, r api.Request) bool {
	return slices.ContainsFunc(r.RequestedBy, func(by string) bool {
		name, _, _ := strings.Cut(by, "#")
		return slices.Contains(s.For, by) || strings.HasPrefix(by, "agent:") && slices.Contains(s.For, name)
	})
}

// signedBy reports whether a signature in that role counted.
func signedBy(e api.Entry, role op.Role) bool {
	return slices.ContainsFunc(e.Signers, func(s string) bool {
		_, as := op.WhoSigned(s)
		return as == role
	}) && e.Kind != "rejected"
}

// people returns the names of those who signed.
func people(e api.Entry) []string {
	out := []string{}
	for _, s := range e.Signers {
		if name, _ := op.WhoSigned(s); name != "" && len(out) < op.MaxSignatures {
			out = append(out, message.Clean(name, 80))
		}
	}
	return out
}

func names(e api.Entry) string {
	if list := people(e); len(list) > 0 {
		return strings.Join(list, ", ")
	}
	return "an operator"
}

// span writes a length of time as people do: 10m, not 10m0s.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
