package bench

import (
	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/wire/convert"
)

func startOf(i int) op.Ask {
	return op.Ask{Op: "guest.start", Target: op.Target{Kind: "guest", Name: guestName(i)}, Params: op.Params{}}
}

// startRequests are benign steps on n guests as calls of the socket.
func startRequests(n int) ([]exchange, error) {
	out := make([]exchange, 0, n)
	for i := range n {
		r, err := post("/v1/jobs", convert.SubmitOf("", startOf(i)))
		if err != nil {
			return nil, err
		}
		out = append(out, exchange{r})
	}
	return out, nil
}

// benign measures steps that need no signature.
func (b *bench) benign() error {
	many, err := startRequests(b.size.many)
	if err != nil {
		return err
	}
	decided, err := b.loads(trial{name: "benign", ops: many, want: planned, end: op.StatePlanned})
	if err != nil {
		return err
	}
	b.ratioRow("benign step, 32 clients, decided and durable", decided, 2.2)
	b.addf("  p99 against p50", decided.tail, plain, 3, "")
	inside, allocated, err := b.inside("benign", b.size.many, op.StatePlanned, func(g *gate.Gate, k int) error {
		_, err := g.Submit(b.ctx, op.Submission{Requester: caller, Steps: []op.Ask{startOf(k)}})
		return err
	})
	if err != nil {
		return err
	}
	b.addf("  the same without the socket", inside, perSecond, 0, "calls of the gate in one process")
	b.allocationRows(allocated, benignThen)
	through, err := b.loads(trial{name: "benign-through", ops: many[:b.size.through], want: planned,
		end: op.StateSucceeded})
	if err != nil {
		return err
	}
	b.ratioRow("  through to succeeded", through, 4.5)
	return nil
}
