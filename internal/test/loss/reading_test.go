package loss

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/shown"
)

// times is one moment, in truth and by the gate's clock.
type times struct{ truth, gate time.Time }

// since is how long ago u was, by the clock that shows less and by the other.
func (t times) since(u times) (least, most time.Duration) {
	truth, gate := t.truth.Sub(u.truth), t.gate.Sub(u.gate)
	return min(truth, gate), max(truth, gate)
}

// glance is a request as an operator saw it.
type glance struct {
	request op.Request
	at      times
	moved   bool // something happened since that may make it stale
}

// toSign is how long an operator may take to read and sign, at least, before what
// unsigned steps do makes a signature worthless.
const toSign = 4 * time.Minute

// toRead is how long one who reads a request again and again has for that, and
// toRest how long after a first showing another one counts as the first.
const toRead, toRest = 26 * time.Minute, time.Hour

// show has an operator read a request, to sign it later.
func (p *play) show(id op.RequestID) error {
	if err := p.life.gate.ShowPayload(p.ctx, id); err != nil {
		return err
	}
	r, err := p.life.gate.Shown(p.ctx, id)
	if err != nil {
		return err
	}
	if _, seen := p.shown[id]; !seen {
		p.order = append(p.order, id)
	}
	now := times{p.clock.truth(), p.life.gate.Moment().Now}
	first, read := p.read[r.Nonce]
	if least, _ := now.since(first); !read || least >= toRest {
		p.read[r.Nonce] = now
	}
	p.saw[id] = r.Payload
	kept, err := shown.RecordOf(id.String(), r.Payload, nil, shown.OnTerminal, now.truth)
	if err == nil {
		err = p.people().Keep(kept)
	}
	if err != nil {
		return err
	}
	// Without facts, what was issued is not what is there now.
	p.shown[id] = glance{request: r, at: now, moved: r.FactsAt.IsZero()}
	return nil
}

// people is what opsign keeps for an operator between two calls.
func (p *play) people() shown.Dir { return shown.Dir{Path: filepath.Join(p.dir, "shown")} }

// signAgain is a second call, after one that showed a request, in which opsign asks nobody. It asks the gate anew, and
// signs what the gate says now if that is what was shown.
func (p *play) signAgain(id op.RequestID) error {
	if err := p.life.gate.ShowPayload(p.ctx, id); err != nil {
		return err
	}
	r, err := p.life.gate.Shown(p.ctx, id)
	if err != nil {
		return err
	}
	last, err := p.people().Last(p.life.gate.ID(), id)
	if err != nil || last == nil || !last.Is(r.Payload) {
		p.o.say("    %s is not as it was shown: %v", id, err)
		return err
	}
	err = p.approve(r)
	p.o.say("    %s in a second call: %v", id, err)
	p.moved(r.Step.Target.Name)
	if !bytes.Equal(p.saw[id], r.Payload) {
		return lossOf("shown", "%s was signed as %s, and shown as %s", id, op.SHA256(r.Payload), op.SHA256(p.saw[id]))
	}
	return nil
}

// signLate signs what an operator was shown earlier. If nothing happened since that
// an operator or the request's own wisher did, it has to count.
func (p *play) signLate(a action) error {
	if len(p.order) == 0 {
		return nil
	}
	id := p.order[int(a.args[0])%len(p.order)]
	if a.args[1]%2 == 1 {
		return p.signAgain(id)
	}
	g := p.shown[id]
	p.order = slices.DeleteFunc(p.order, func(x op.RequestID) bool { return x == id })
	delete(p.shown, id)
	now := p.life.gate.Moment()
	// A clock that jumps across a reboot is time that went by, as far as a gate can tell.
	at := times{p.clock.truth(), now.Now}
	_, shown := at.since(g.at)
	_, read := at.since(p.read[g.request.Nonce])
	late := shown > toSign || read > toRead || !now.Trusted || g.request.Step.Target.Kind != op.KindGuest
	err := p.approve(g.request)
	p.o.say("    %s as it was shown: %v", id, err)
	p.moved(g.request.Step.Target.Name)
	if has, jobErr := p.hasIt(id); jobErr != nil || has {
		return jobErr
	}
	if err != nil && !g.moved && !late && (errors.Is(err, refusal.StaleTarget) || errors.Is(err, refusal.Superseded)) {
		return lossOf("liveness", "%s cannot be approved as it was shown, though nothing was done since but what is benign: %v", id, err)
	}
	return nil
}

// hasIt reports whether a set of desired state withdrew its request for a guest,
// because there is a guest of that name by now. A create for others is held.
func (p *play) hasIt(id op.RequestID) (bool, error) {
	j, err := p.life.gate.Job(p.ctx, id.Job)
	if err != nil {
		return false, err
	}
	s := j.Steps[id.Index-1]
	spec, err := op.Lookup(s.Op)
	return spec.Creates && s.State == op.StateSuperseded && s.Detail == "desired state no longer asks for it", err
}
