package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// errCut ends an actor: the daemon is gone, or is about to be.
var errCut = errors.New("cut off")

// story is what goes on during one life of the daemon.
type story struct {
	*machine
	ledger *ledger
	life   int
	answer atomic.Int64 // that the daemon gave in this life
	strike func(answers int64)
	opsign bool // one approval of this life goes through the real opsign
}

// answered counts an answer of the daemon, which may be the last one. Anything
// but a refusal or a success means that the daemon is gone.
func (s *story) answered(err error) error {
	var r *refusal.Refusal
	if err != nil && !errors.As(err, &r) {
		return errCut
	}
	s.strike(s.answer.Add(1))
	return err
}

// tell runs all actors side by side until they end or are cut off.
func (s *story) tell(ctx context.Context, r *rand.Rand) {
	var wg sync.WaitGroup
	for i, act := range []func(context.Context, *rand.Rand) error{s.apply, s.destroys, s.destroys, s.benign, s.replays, s.reserves, s.backsUp} {
		own := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				var refused *refusal.Refusal
				if err := act(ctx, own); err != nil && !errors.As(err, &refused) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// apply puts desired state: three guests that run, stop and change.
func (s *story) apply(ctx context.Context, r *rand.Rand) error {
	doc := "apiVersion: gated/v1\nhost: pve1\nguests:\n"
	for i := range 3 {
		doc += fmt.Sprintf("  - name: w%d\n    state: %s\n    memory: %dMiB\n    command: sleep\n", i,
			[]string{"running", "running", "stopped"}[r.IntN(3)], 64+r.IntN(8))
	}
	s.ledger.putting("main", op.SHA256([]byte(doc)))
	_, err := s.client.PutSet(ctx, "main", "", []byte(doc))
	if err = s.answered(err); err == nil {
		s.ledger.put("main", op.SHA256([]byte(doc)))
	}
	if err != nil {
		return err
	}
	_, err = s.client.Guests(ctx)
	return s.answered(err)
}

func (s *story) submit(ctx context.Context, name, target string, p op.Params) (api.Job, error) {
	t := "guest/" + target
	j, err := s.client.Submit(ctx, api.Submit{Op: &name, Target: &t, Params: p, Reason: "story"}, "")
	if err = s.answered(err); err == nil {
		s.ledger.job(j)
	}
	return j, err
}

// settled waits until a job ended or waits for a signature.
func (s *story) settled(ctx context.Context, id string) (api.Job, error) {
	j, err := s.client.AwaitJob(ctx, id, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
	if ctx.Err() != nil {
		return j, errCut
	}
	if err = s.answered(err); err == nil {
		s.ledger.job(j)
	}
	return j, err
}

// destroys makes a guest with files, has it destroyed by signature, and
// sometimes brings it back.
func (s *story) destroys(ctx context.Context, r *rand.Rand) error {
	name := fmt.Sprintf("g%d-%d", s.life, r.Uint32())
	j, err := s.submit(ctx, "guest.create", name, op.Params{})
	if err != nil {
		return err
	}
	if j, err = s.settled(ctx, j.ID); err != nil || j.State != op.StateSucceeded {
		return err
	}
	if err := s.fill(ctx, name, r); err != nil {
		return err
	}
	if j, err = s.submit(ctx, "guest.destroy", name, op.Params{}); err != nil || j.Request == nil {
		return err
	}
	if r.IntN(5) == 0 {
		return nil // it waits for ever
	}
	if err := s.approve(ctx, *j.Request); err != nil {
		return err
	}
	if r.IntN(2) == 0 {
		return nil
	}
	if j, err = s.settled(ctx, j.ID); err != nil || j.State != op.StateSucceeded {
		return err
	}
	_, err = s.submit(ctx, "guest.undelete", name, op.Params{})
	return err
}

// fill writes files into a new guest and remembers them.
func (s *story) fill(ctx context.Context, name string, r *rand.Rand) error {
	data := filepath.Join(s.root, name, "data")
	for i := range 1 + r.IntN(3) {
		if err := os.WriteFile(filepath.Join(data, fmt.Sprint("f", i)), fmt.Appendf(nil, "%d of %s", r.Uint64(), name), 0o600); err != nil {
			return err
		}
	}
	g, err := s.client.Guest(ctx, name)
	if err = s.answered(err); err != nil {
		return err
	}
	s.ledger.owns(g.Incarnation, possession{name: name, digest: digest(s.t, data)})
	return nil
}

func (s *story) approve(ctx context.Context, request string) error {
	payload, err := s.client.Payload(ctx, request)
	if err = s.answered(err); err != nil {
		return err
	}
	armor, err := s.signer.Sign(ctx, op.Operational, payload)
	if err != nil {
		return err
	}
	e := api.EnvelopeOf(payload, armor)
	sent := s.ledger.sending(request, e)
	if s.opsign {
		err = exec.CommandContext(ctx, filepath.Join(bin, "opsign"), "approve", request, "--socket", s.socket, "--key", s.key,
			"--yes", "--payload", "sha256:"+op.SHA256(payload), "--no-wait").Run()
		if err != nil {
			return errCut
		}
		s.strike(s.answer.Add(1))
	} else {
		got, err := s.client.Approve(ctx, request, e)
		if err = s.answered(err); err != nil {
			return err
		}
		if got.State != op.StateAuthorized && got.State != op.StateDispatched {
			s.t.Errorf("%s was approved and is %s", request, got.State)
		}
	}
	s.ledger.accepted(sent)
	return nil
}

// benign starts, stops and snapshots what desired state keeps.
func (s *story) benign(ctx context.Context, r *rand.Rand) error {
	name, target := []string{"guest.start", "guest.stop", "guest.restart", "guest.snapshot"}[r.IntN(4)], fmt.Sprint("w", r.IntN(3))
	p := op.Params{}
	if name == "guest.snapshot" {
		p["snapshot"] = fmt.Sprintf("s%d", r.Uint32())
	}
	j, err := s.submit(ctx, name, target, p)
	if err == nil && r.IntN(2) == 0 {
		_, err = s.settled(ctx, j.ID)
	}
	return err
}

// replays sends an approval that was accepted once more, while everything else
// goes on.
func (s *story) replays(ctx context.Context, r *rand.Rand) error {
	spent := s.ledger.spent()
	if len(spent) == 0 {
		_, err := s.client.Status(ctx)
		return s.answered(err)
	}
	a := spent[r.IntN(len(spent))]
	send := func() error { _, err := s.client.Approve(ctx, a.request, a.envelope); return err }
	if r.IntN(2) == 0 {
		send = func() error { _, err := s.client.SubmitSigned(ctx, a.envelope); return err }
	}
	err := send()
	if e := s.answered(err); errors.Is(e, errCut) {
		return e
	}
	for _, wrong := range checkReplay(a.request, err) {
		s.t.Error(wrong)
	}
	return nil
}
