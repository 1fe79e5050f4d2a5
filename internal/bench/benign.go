package bench

import (
	"errors"
	"fmt"
	"strconv"

	"gated/internal/api"
	"gated/internal/op"
)

func startOf(i int) op.Ask {
	return op.Ask{Op: "guest.start", Target: op.Target{Kind: "guest", Name: guestName(i)}, Params: op.Params{}}
}

// startRequests are benign steps on n guests as calls of the socket.
func startRequests(n int) ([]exchange, error) {
	out := make([]exchange, 0, n)
	for i := range n {
		r, err := post("/v1/jobs", api.SubmitOf("", startOf(i)))
		if err != nil {
			return nil, err
		}
		out = append(out, exchange{r})
	}
	return out, nil
}

func (b *bench) benign() error {
	i := 0
	inside, err := median(loadRuns, func() (float64, error) {
		i++
		dir, err := b.gateDir("benign-inside-" + strconv.Itoa(i))
		if err != nil {
			return 0, err
		}
		w, err := newWorld(b.ctx, worldOptions{dir: dir, guests: alike(manyOps)})
		if err != nil {
			return 0, err
		}
		r, err := together(manyOps, func(k int) error {
			_, err := w.gate.Submit(b.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: 1000, PID: 1},
				Steps: []op.Ask{startOf(k)}})
			return err
		})
		return r, errors.Join(err, w.store.Close())
	})
	if err != nil {
		return err
	}
	decided, err := b.loads("benign", manyOps, false, startRequests, planned)
	if err != nil {
		return err
	}
	through, err := b.loads("benign-through", throughOps, true, startRequests, planned)
	if err != nil {
		return err
	}
	b.table.add(row{"benign step, 32 clients, decided and durable", decided.rate, perSecond, 12000,
		fmt.Sprintf("%s; p50 %.1f ms, p99 %.1f ms", decided.cost(), decided.p50, decided.p99)})
	b.table.add(row{"  the same without the socket", inside, perSecond, 0, "calls of the gate in one process"})
	b.table.add(row{"  through to succeeded", through.rate, perSecond, 0, through.cost() + "; fsck finds it sound"})
	return nil
}
