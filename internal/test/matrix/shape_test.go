package matrix_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// shaped is a row in which a listed key validly signs bytes that are not a
// payload in its one form. Both end points refuse them.
func shaped(id, what string, want refusal.Code, change func(text string) string) attack {
	return attack{id: id, what: "a listed key signs a payload with " + what, want: want, run: func(w *world) error {
		r := w.destroyRequest()
		text := change(string(r.Payload))
		require.NotEqual(w.t, string(r.Payload), text)
		e := w.alice.envelope(w.t, []byte(text))
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(e), want)
		return w.send(r.ID, e)
	}}.on(anyGuests)
}

// replaced changes the payload's text in one place.
func replaced(id, what, old, new string) attack {
	return shaped(id, what, refusal.Malformed, func(s string) string {
		if !strings.Contains(s, old) {
			panic("the payload has no " + old + ": " + s)
		}
		return strings.Replace(s, old, new, 1)
	})
}

// typeFirst has the same members, of which the last one comes first.
func typeFirst(payload string) string {
	last := `"type":"` + op.TypeSignedOp + `"`
	rest, ok := strings.CutSuffix(payload, ","+last+"}")
	if !ok {
		panic("the payload does not end with its type: " + payload)
	}
	return "{" + last + "," + strings.TrimPrefix(rest, "{") + "}"
}

// posing is a row in which a job names a target that is none.
func posing(id, what string, names ...string) attack {
	return attack{id: id, what: "a job for " + what, want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		var last error
		for _, name := range names {
			_, last = w.submit(hub, ask("guest.destroy", name))
			require.ErrorIs(w.t, last, refusal.Malformed, "%q", name)
			_, err := op.ParseTarget("guest/" + name) // as it comes over the wire
			require.ErrorIs(w.t, err, refusal.Malformed, "%q", name)
			b := []byte(strings.Replace(string(r.Payload), `"target":"guest/victim"`, fmt.Sprintf(`"target":%q`, "guest/"+name), 1))
			require.ErrorIs(w.t, w.sendOffline(w.alice.envelope(w.t, b)), refusal.Malformed, "%q", name)
		}
		return last
	}}.on(anyGuests)
}

// said is a row in which a job, and then a signed payload, carry text that does
// not show as it is.
func said(id, what, text, escaped string) attack {
	return attack{id: id, what: what + " in every shown field", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		for _, field := range []string{`"host":"`, `"reason":"`, `"incarnation":"`, `"target":"guest/`, `"op":"guest.`} {
			b := []byte(strings.Replace(string(r.Payload), field, field+escaped, 1))
			require.ErrorIs(w.t, w.sendOffline(w.alice.envelope(w.t, b)), refusal.Malformed, "%s", field)
			require.ErrorIs(w.t, w.send(r.ID, w.alice.envelope(w.t, b)), refusal.Malformed, "%s", field)
		}
		for _, a := range []op.Ask{
			ask("guest.set-config", "victim", "labels", labels("tier", "a"+text)),
			ask("guest.create", "new"+text), ask("guest.set-config", "victim", "command", "idle"+text),
			ask("guest.undelete", "victim", "incarnation", "x"+text),
		} {
			must.Fail(w.submit(hub, a))(w.t, refusal.Malformed, "%v", a)
		}
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "bystander")}, Reason: "x" + text})
		return err
	}}.on(anyGuests)
}

var shapeRows = []attack{
	replaced("B10a", "a member twice, in the order of the canonical form", `"target":`, `"target":"guest/bystander","target":`),
	replaced("B10b", "a member in another case besides", `"type":`, `"Target":"guest/bystander","type":`),
	replaced("B10c", "a member in another case instead", `"target":`, `"Target":`),
	replaced("B10d", "an unknown member", `"type":`, `"trusted":true,"type":`),
	shaped("B10e", "bytes after it", refusal.Malformed, func(s string) string { return s + "\n" }),
	shaped("B10f", "a second value after it", refusal.Malformed, func(s string) string { return s + s }),
	replaced("B10g", "white space, which is not canonical", `{"expires_at"`, `{ "expires_at"`),
	shaped("B10h", "its members in another order", refusal.Malformed, typeFirst),
	replaced("B10i", "invalid UTF-8", `"reason":"`, "\"reason\":\"\xff"),
	replaced("B10j", "a lone surrogate", `"reason":"`, `"reason":"\ud800`),
	replaced("B10k", "a number written 1e2", `"params":{}`, `"params":{"memory":1e2}`),
	replaced("B10l", "a number written -0", `"params":{}`, `"params":{"memory":-0}`),
	replaced("B10m", "the number 2^53", `"params":{}`, `"params":{"memory":9007199254740992}`),
	replaced("B10n", "a fraction", `"params":{}`, `"params":{"memory":1.5}`),
	replaced("B10o", "a null", `"params":{}`, `"params":{"memory":null}`),
	replaced("B10p", "a null member", `"reason":"matrix"`, `"reason":null`),
	replaced("B10q", "params of depth 5", `"params":{}`, `"params":{"a":{"b":{"c":{"d":{"e":1}}}}}`),
	replaced("B10r", "a member missing", `"reason":"matrix",`, ``),
	replaced("B10s", "an escape that is not canonical", `"reason":"m`, `"reason":"\u006d`),
	replaced("B10t", "the state in upper case", `"state":"sha256:`, `"state":"SHA256:`),
	shaped("B10u", "nothing but null", refusal.Malformed, func(string) string { return "null" }),
	said("B11a", "a zero-width space", "\u200b", "\u200b"),
	said("B11b", "a right-to-left override", "\u202e", "\u202e"),
	said("B11c", "an ANSI escape", "\x1b[2K", `\u001b[2K`),
	said("B11d", "a newline", "\n", `\n`),
	said("B11e", "a line separator", "\u2028", "\u2028"),
	said("B11f", "a byte-order mark", "\ufeff", "\ufeff"),
	shaped("B12a", "a reason of 64 KiB", refusal.Oversized, func(s string) string {
		return strings.Replace(s, `"reason":"`, `"reason":"`+strings.Repeat("x", 64<<10), 1)
	}),
	shaped("B12b", "a reason of 1,025 bytes", refusal.Malformed, func(s string) string {
		return strings.Replace(s, `"reason":"matrix"`, `"reason":"`+strings.Repeat("x", 1025)+`"`, 1)
	}),
	{id: "B12c", what: "a destructive job whose parameters do not fit into a payload", want: refusal.Oversized, run: func(w *world) error {
		w.do("guest.set-config", "victim", "labels", labels("keep", "yes"))
		w.arm()
		_, err := w.submit(hub, ask("guest.set-config", "victim", "labels", labels("note", strings.Repeat("x", 64<<10))))
		return err
	}},
	posing("B13", "a name in look-alike letters", "vi\u0441tim", "v\u0456ctim", "victi\uff4d", "victim\u0301"),
	posing("B15a", "a path instead of a name", "..", ".", "../bystander", "victim/../bystander", "/etc", "a/b", ".trash", "", "victim/", "victim\x00", ".new-x"),
	posing("B16", "a wildcard or a list", "*", "vict*", "victim,bystander", "[victim]", "victim bystander", "{victim,bystander}", "?ictim", "all\n"),
}

var raceRows = []attack{
	{id: "B17a", what: "a start and an approved destroy of one guest, permits for both: the destroy goes first", want: refusal.StaleTarget,
		run: func(w *world) error {
			w.makeGuest("web", "command", "idle")
			r := w.request(ask("guest.destroy", "web"))
			w.mustApprove(r)
			j := must.Get(w.submit(hub, ask("guest.start", "web")))(w.t)
			require.NoError(w.t, w.executor().execute(w.ctx, r.ID))
			w.arm()
			return w.executor().execute(w.ctx, j.Steps[0].ID)
		}},
	{id: "B17b", what: "the destroy is tried while the start is under way", want: refusal.Unavailable, run: func(w *world) error {
		w.makeGuest("web", "command", "idle")
		r := w.request(ask("guest.destroy", "web"))
		w.mustApprove(r)
		j := must.Get(w.submit(hub, ask("guest.start", "web")))(w.t)
		destroy := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		start := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(w.t)
		require.NoError(w.t, start.Use(w.ctx, w.observe("web")))
		w.arm()
		_, err := driver.Run(w.ctx, destroy, w.driver)
		after := w.observe("web")
		_, recordErr := w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{Err: refusal.New(refusal.Conflict, "given up"), After: &after})
		require.NoError(w.t, recordErr)
		w.allow.runs = true
		w.allow.finale = []string{"web"}
		return err
	}},
	{id: "B17c", what: "both at once, many times: one order, and nothing of the guest is left half done", want: lostRace,
		run: func(w *world) error {
			w.arm()
			w.allow.trash, w.allow.unlogged = true, "both are allowed"
			for i := range 6 {
				name := fmt.Sprintf("web%d", i)
				w.makeGuest(name, "command", "idle")
				r := w.request(ask("guest.destroy", name))
				w.mustApprove(r)
				w.ends(r.ID, op.StateSucceeded, nonce.Used)
				j := must.Get(w.submit(hub, ask("guest.start", name)))(w.t)
				var wg sync.WaitGroup
				wg.Go(func() { _ = w.executor().execute(w.ctx, r.ID) })
				wg.Go(func() { _ = w.executor().execute(w.ctx, j.Steps[0].ID) })
				wg.Wait()
				_ = w.runAll() // whichever was told to wait
				require.False(w.t, w.observe(name).Present)
				require.Equal(w.t, op.StateSucceeded, w.stepOf(r.ID).State)
				require.Contains(w.t, []op.State{op.StateSucceeded, op.StateRefused}, w.stepOf(j.Steps[0].ID).State)
			}
			return lostRace
		}},
}

// nonces of the wrong form, in a payload that is right otherwise.
func nonceOf(id, what, text string) attack {
	return shaped(id, "a nonce "+what, refusal.Malformed, func(s string) string {
		i := strings.Index(s, `"nonce":"`) + len(`"nonce":"`)
		return s[:i] + text + s[i+strings.Index(s[i:], `"`):]
	})
}

func raw(n int) []byte { return []byte(strings.Repeat("\xfb\xff", n))[:n] }

var nonceRows = []attack{
	nonceOf("T10a", "of 15 bytes", base64.RawURLEncoding.EncodeToString(raw(15))),
	nonceOf("T10b", "of 33 bytes", base64.RawURLEncoding.EncodeToString(raw(33))),
	nonceOf("T10c", "with padding", base64.URLEncoding.EncodeToString(raw(16))),
	nonceOf("T10d", "in the standard alphabet", base64.RawStdEncoding.EncodeToString(raw(16))),
	nonceOf("T10e", "with stray bits in its last character", "AAAAAAAAAAAAAAAAAAAAAB"),
	nonceOf("T10f", "that is empty", ""),
}

// envelopeOf is what several rows replay.
func (w *world) envelopeOf(r op.Request) authz.Envelope { return w.alice.envelope(w.t, r.Payload) }

// freshPayload is the request's step as an operator would sign it offline.
func (w *world) freshPayload(r op.Request) []byte {
	return w.altered(r, func(p *op.Payload) { p.Nonce = op.NewNonce(time.Now()) })
}
