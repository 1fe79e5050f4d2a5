// Package evidencereader is a second reader of evidence, for tests alone. It is written from docs/formats/evidence.md, and has
// gated's own parsers and verifiers where scripts/verify-evidence.py has Python and ssh-keygen. Tests compare what both say.
package evidencereader

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/evidence"
	"gated/internal/log/journal"
)

// Own is what the reader has of its own. At least one of both is needed.
type Own struct {
	GateKey string // the gate's public key, gated/ID+HASH+KEY
	Witness string // lines of opsign witness export
}

// Result is what evidence that holds says.
type Result struct {
	Step string // j12.1
	End  string // kind of the last entry that moved the step
}

// Read verifies lines of evidence. Comments name the steps of the page's section Verification.
func Read(text string, own Own) (out []Result, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case wrong:
			err = v.error
		default:
			panic(v)
		}
	}()
	seen := map[string][]audit.Entry{} // by gate and nonce of the last request: what moved its step
	for line := range strings.Lines(text) {
		r := open(line)
		r.prove(own)
		r.move()
		r.dispatched()
		r.asked()
		r.decided()
		r.once(seen)
		out = append(out, Result{r.Step, string(r.moves[len(r.moves)-1].Kind)})
	}
	must(len(out) > 0, "there is no evidence")
	return out, nil
}

// wrong carries to Read why the evidence does not hold.
type wrong struct{ error }

func must(held bool, why string, args ...any) {
	if !held {
		panic(wrong{fmt.Errorf(why, args...)})
	}
}

func hold(err error) {
	if err != nil {
		panic(wrong{err})
	}
}

func get[T any](v T, err error) T {
	hold(err)
	return v
}

// reading is a document while it is read.
type reading struct {
	evidence.Document
	id      op.StepID
	entries []audit.Entry // all of the document
	moves   []audit.Entry // those that moved the step
	last    audit.Entry   // the last request; the zero one if nobody was asked
}

// open is step 1. The decoders here, and those of entries, need and signed texts, refuse an object that has a member twice.
func open(line string) *reading {
	r := &reading{}
	hold(json.Unmarshal([]byte(line), &r.Document))
	must(r.Type == evidence.Type, "this is no evidence but %q", r.Type)
	r.id = get(op.ParseStepID(r.Step))
	return r
}

// move is step 6. An entry of another kind than those of states.md moves nothing.
func (r *reading) move() {
	var state op.State
	for _, e := range r.entries {
		t := op.TransitionOf(string(e.Kind))
		if e.Step != r.Step || t.Entry == "" || e.Kind == audit.Refused && e.Class == "" {
			continue
		}
		must(t.Allows(state), "entry %d says %s of a step that was %q", e.Seq, e.Kind, state)
		state = t.To
		r.moves = append(r.moves, e)
		first := r.moves[0]
		must(e.Op == first.Op && e.Target == first.Target, "the entries are of different operations or targets") // step 5
	}
	ends := []op.State{op.StateSucceeded, op.StateFailed, op.StateInterrupted, op.StateRejected, op.StateRefused}
	must(slices.Contains(ends, state), "no entry says how the step ended")
}

// dispatched is step 7. Once somebody was asked, the step is not benign any more.
func (r *reading) dispatched() {
	var asked, ran bool
	var approved audit.Entry
	for _, e := range r.moves {
		benign := e.Class == op.Benign && !asked
		switch e.Kind {
		case audit.Requested:
			asked = true
		case audit.Approved:
			approved = e
		case audit.Retried:
			must(benign, "it was tried again, and is not benign")
		case audit.Dispatched:
			must(benign || approved.Seq > 0 && !ran, "it ran without an approval, or twice")
			must(benign || e.Gate == approved.Gate, "another gate ran it than the one that was asked")
			must(benign || e.Incarnation == approved.Incarnation, "it ran on another incarnation")
			ran = ran || !benign
		}
	}
}

// newest returns the newest entry of these kinds that moved the step, or the zero one.
func (r *reading) newest(kinds ...audit.Kind) (out audit.Entry) {
	for _, e := range r.moves {
		if slices.Contains(kinds, e.Kind) {
			out = e
		}
	}
	return out
}

// asked is step 8.
func (r *reading) asked() {
	if r.last = r.newest(audit.Requested, audit.Reissued); r.last.Seq == 0 {
		none := len(r.Payload)+len(r.Signatures)+len(r.Proofs) == 0 && r.Shown == nil && r.Signers == nil
		must(none, "nobody was asked, and the evidence has a request")
		return
	}
	must(op.SHA256(r.Payload) == r.last.Payload, "the payload is not the one that was asked for")
	p := get(op.DecodePayload(r.Payload))
	must(p.Host == r.Host, "the payload is of another host")
	approved := r.newest(audit.Approved)
	must(approved.Seq == 0 || approved.Payload == r.last.Payload, "the payload is not the one that was approved")
	for _, e := range r.moves {
		if e.Seq == r.last.Seq || e.Seq == approved.Seq {
			same := p.Gate == e.Gate && p.Op == e.Op && p.Target.String() == e.Target && p.Incarnation == e.Incarnation
			must(same, "the payload is of something else than entry %d", e.Seq)
		}
		if e.Kind == audit.Requested { // reissued has no parameters
			must(string(p.Params.Canonical()) == string(e.Params.Canonical()), "the payload has other parameters than the request")
		}
	}
	must(r.Shown != nil, "the evidence does not have what people were shown")
	shown := journal.DigestShown([]byte(r.Shown.Facts), []byte(r.Shown.Labels))
	must(r.last.ShownSHA256 == "" || r.last.ShownSHA256 == shown, "what people were shown is not what the log says")
}

// once is step 14.
func (r *reading) once(seen map[string][]audit.Entry) {
	if r.last.Seq == 0 {
		return
	}
	p := get(op.DecodePayload(r.Payload))
	nonce := string(p.Gate) + " " + p.Nonce
	first, there := seen[nonce]
	must(!there || reflect.DeepEqual(r.moves, first), "%s and another line differ and have one nonce", r.Step)
	seen[nonce] = r.moves
}
