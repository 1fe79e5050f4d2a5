package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// outcomeTime is how long the outcome of an approval is waited for.
const outcomeTime = 30 * time.Second

// outcome prints what became of an approved request and ends the command by it.
func (t *tool) outcome(ctx context.Context, cl *client.Client, r api.Request, wait bool) error {
	r, err := t.settled(ctx, cl, r, wait)
	if err != nil {
		return err
	}
	if t.JSON {
		if err := t.Emit(r); err != nil {
			return err
		}
	}
	switch {
	case r.State == op.StatePending:
		t.Say("%s", cli.Told(missingText(r, t.now()), t.Stderr))
		return cli.Ended(api.ExitWaits)
	case !r.State.Open() && r.State != op.StateSucceeded:
		t.SayEnded(r.State, r.Job, r.Error)
	case t.JSON:
	default:
		t.Print("%s", cli.Told(outcomeWords(r, t.now())+"\n", t.Stdout))
	}
	if text := printed(ctx, cl, r); text != "" && !t.JSON {
		t.Print("%s", cli.Told(text, t.Stdout))
	}
	return cli.Ended(api.ExitOfState(r.State))
}

// printed shows what the step of a request printed that has ended; "" where that is
// nothing, or nothing is known.
func printed(ctx context.Context, cl *client.Client, r api.Request) string {
	if r.State.Open() {
		return ""
	}
	job, err := cl.Job(ctx, r.Job)
	if err != nil {
		return ""
	}
	job.Steps = slices.DeleteFunc(job.Steps, func(s api.Step) bool { return s.ID != r.ID })
	return cli.Outputs(job)
}

// settled returns a request as it is when its step has ended. It waits for that
// unless wait is false, more people have to sign, the step cools off or waits
// for its window, or it has to wait for another request of its job.
func (t *tool) settled(ctx context.Context, cl *client.Client, r api.Request, wait bool) (api.Request, error) {
	if !wait || !r.State.Open() || r.State == op.StatePending || cli.Delayed(r, t.now()) {
		return r, nil
	}
	err := awaitStep(ctx, cl, r.Job, r.ID)
	now := r
	if err == nil {
		now, err = cl.Request(ctx, r.ID)
	}
	return now, cli.Unheard(err, haveCounted(r.ID))
}

// missingText says who is needed after a signature that was not the last.
func missingText(r api.Request, now time.Time) string {
	text := fmt.Sprintf("%s still waits for signatures\n", cli.Inline(r.ID))
	for line := range strings.Lines(cli.Needed(r) + cli.Delays(r, now)) {
		text += "  " + line
	}
	return text
}

// awaitStep returns when a step has ended, cannot run before somebody signs
// another step of its job, or outcomeTime is over.
func awaitStep(ctx context.Context, cl *client.Client, job, step string) error {
	limited, cancel := context.WithTimeout(ctx, outcomeTime)
	defer cancel()
	_, err := cl.AwaitJob(limited, job, func(j api.Job) bool {
		waits, ended := false, false
		for _, s := range j.Steps {
			waits = waits || s.State == op.StatePending
			ended = ended || s.ID == step && !s.State.Open()
		}
		return ended || waits
	})
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// outcomeWords says how a request stands that is not refused: "destroyed
// guest/web-1, can be undone until …". Until when is the gate's word.
func outcomeWords(r api.Request, now time.Time) string {
	what := cli.Inline(r.Op) + " " + cli.Inline(r.Target)
	if spec, err := op.Lookup(r.Op); err == nil && spec.Done != "" {
		what = spec.Done + " " + cli.Inline(r.Target)
	}
	if r.Op == op.Rotate && r.State == op.StateSucceeded {
		what = fmt.Sprintf("rotated: epoch %d", r.Params.Int("epoch"))
	}
	if text := taken(r); text != "" && r.State == op.StateSucceeded {
		what = text
	}
	switch {
	case r.State == op.StateSucceeded && r.Detail != "":
		return what + ", " + cli.Inline(r.Detail)
	case r.State == op.StateSucceeded:
		return what
	case cli.Delayed(r, now):
		return fmt.Sprintf("%s %s: %s", cli.Inline(r.Op), cli.Inline(r.Target), strings.TrimSuffix(cli.Delays(r, now), "\n"))
	default:
		return fmt.Sprintf("%s %s: %s, not done yet; gated jobs %s shows how it goes on", cli.Inline(r.Op),
			cli.Inline(r.Target),
			cli.Inline(string(r.State)), cli.Typed(r.Job, "JOB"))
	}
}

func haveCounted(id string) string {
	return fmt.Sprintf("the approval counted; opsign show %s says what became of it", op.Shown(id))
}

// taken words what a step on reservations did, "" for any other. A scope goes by
// its path, as the gate saw it. How many reservations there were is what the
// signature was for: with one more or less the step would have been refused.
func taken(r api.Request) string {
	where := factText(r, "path")
	if where == "" {
		where = r.Target
	}
	switch r.Op {
	case op.ReleaseAll:
		text := fmt.Sprintf("released every reservation of %s", cli.Inline(where))
		if n := factText(r, "reservations"); n != "" {
			text += fmt.Sprintf(" (%s)", cli.Inline(n))
		}
		return text
	case op.ForceTransfer:
		return fmt.Sprintf("gave the reservation %s in %s to %s",
			cli.Inline(r.Params.Str("reservation")), cli.Inline(where), cli.Inline(r.Params.Str("to")))
	}
	return ""
}

// factText returns the text of the first fact of that name, "" if there is none.
func factText(r api.Request, name string) string {
	i := slices.IndexFunc(r.Facts, func(f op.Fact) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	return r.Facts[i].Text
}

// question is a request together with what its payload's bytes say. What is
// bound by a signature is only ever taken from payload.
type question struct {
	request api.Request
	bytes   []byte
	payload op.Payload // decoded once, from bytes
	// moving says that the operator was told that counts, sizes and times go on
	// changing: other ones are no change.
	moving bool
}

// looks is how often a request and its payload are asked for that do not go
// together: the gate may issue the request anew between the two answers.
const looks = 2

// question asks the daemon for a request and decodes the bytes that an approval
// of it signs. It refuses, as TargetMismatch, bytes that are for another gate
// than the one that answers, and, as BindingMismatch, a request that is not the
// one that was asked for, or whose bytes are another's: its state, its facts and
// who is needed would be shown beside what they have nothing to do with.
func (t *tool) question(ctx context.Context, cl *client.Client, id string) (question, error) {
	status, err := t.knownGate(ctx, cl)
	if err != nil {
		return question{}, err
	}
	return questionAt(ctx, cl, status, id)
}

// questionAt is question at a gate that knownGate accepted.
func questionAt(ctx context.Context, cl *client.Client, status api.Status, id string) (q question, err error) {
	if _, err := op.ParseJobID(id); err == nil {
		return question{}, jobGiven(ctx, cl, id)
	}
	for range looks {
		if q, err = questionOnce(ctx, cl, id); err != nil {
			return question{}, err
		}
		if q.payload.Gate != status.Gate || q.payload.Host != status.Host {
			return question{}, refusal.New(refusal.TargetMismatch, "the payload is for gate %s on %q, but gate %q on %q answers",
				q.payload.Gate, q.payload.Host, status.Gate, status.Host).WithHint("do not sign it")
		}
		if err = q.together(id); err == nil {
			return q, nil
		}
	}
	return question{}, err
}

// jobGiven refuses a job's id in the place of a request's, and says which requests
// the job has.
func jobGiven(ctx context.Context, cl *client.Client, id string) error {
	j, err := cl.Job(ctx, id)
	if err != nil {
		return err
	}
	var has []string
	for _, s := range j.Steps {
		if s.Request != nil {
			has = append(has, *s.Request+" ("+string(s.State)+")")
		}
	}
	refused := refusal.New(refusal.Malformed, "%s is a job, and operators decide on its requests", id)
	if len(has) == 0 {
		return refused.WithHint("it has none, as none of its steps needs a signature: gated jobs %s", id)
	}
	return refused.WithHint("name one of its requests: %s", strings.Join(has, ", "))
}

func questionOnce(ctx context.Context, cl *client.Client, id string) (q question, err error) {
	if q.request, err = cl.Request(ctx, id); err == nil {
		q.bytes, err = cl.Payload(ctx, id)
	}
	if err == nil {
		q.payload, err = op.DecodePayload(q.bytes)
	}
	return q, err
}

// together refuses, as BindingMismatch, a request and bytes that differ in
// anything that both of them say.
func (q question) together(id string) error {
	r, p := q.request, q.payload
	// What was done to a target changes what its step says of it; nothing is
	// signed then.
	undone := r.State == op.StatePending || r.State == op.StateAuthorized
	for _, m := range []struct {
		name string
		same bool
	}{
		{"id", r.ID == id},
		{"op", r.Op == p.Op},
		{"target", r.Target == p.Target.String()},
		{"params", r.Params.Equal(p.Params)},
		{"host", r.Host == p.Host},
		{"gate", r.Gate == p.Gate},
		{"reason", r.Reason == p.Reason},
		{"incarnation", !undone || r.Incarnation == p.Incarnation},
		{"state", !undone || r.StateFingerprint == p.State},
		{"digest", r.PayloadSHA256 == op.SHA256(q.bytes)},
	} {
		if !m.same {
			return refusal.New(refusal.BindingMismatch, "the gate's answer for %s and the bytes to sign differ in %s: nothing was signed", id, m.name).
				WithHint("try again; if it stays, sign nothing of this gate, and tell its administrator")
		}
	}
	return nil
}
