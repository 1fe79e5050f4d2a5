package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/gate"
)

// gateDir makes a directory that a gate can be served from.
func (b *bench) gateDir(name string) (string, error) {
	dir, err := b.dir(name)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "allowed_signers"), b.keys.lines(), 0o600)
}

// destroys are the ends of n guests that are alike. All keys sign each of them.
func (b *bench) destroys(n int, by ...key) ([]signed, error) {
	list, err := populate(alike(n)).List(b.ctx)
	if err != nil {
		return nil, err
	}
	out := make([]signed, 0, n)
	for _, o := range list {
		s, err := destroy(o, now(), by...)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// destroyRequests are destroys as calls of the socket: one call for each, or, if the
// signatures go apart, one for each signature.
func (b *bench) destroyRequests(n int, apart bool, by ...key) ([]exchange, error) {
	all, err := b.destroys(n, by...)
	if err != nil {
		return nil, err
	}
	out := make([]exchange, 0, n)
	for _, s := range all {
		envelopes := [][]string{s.armors}
		if apart {
			envelopes = slices.Collect(slices.Chunk(s.armors, 1))
		}
		var e exchange
		for _, armors := range envelopes {
			r, err := post("/v1/ops", api.EnvelopeOf(s.payload, armors...))
			if err != nil {
				return nil, err
			}
			e = append(e, r)
		}
		out = append(out, e)
	}
	return out, nil
}

// plainRequests are destroys by one plain key.
func (b *bench) plainRequests(n int) ([]exchange, error) {
	return b.destroyRequests(n, false, b.keys.plain)
}

// caller is the requester of calls inside this process.
var caller = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 1}

// signed measures operations that were signed before the gate saw them.
func (b *bench) signed() error {
	if err := b.calls(); err != nil {
		return err
	}
	many, err := b.plainRequests(b.size.many)
	if err != nil {
		return err
	}
	decided, err := b.loads(trial{name: "signed", ops: many, want: authorized, end: op.StateAuthorized})
	if err != nil {
		return err
	}
	b.ratioRow("signed, 32 clients, decided and durable", decided, 4.0)
	b.addf("  p99 against p50", decided.tail, plain, 3, "%s, %s",
		b.limit.share(decided.rate, b.limit.commits, "the bare store"),
		b.limit.share(decided.rate, b.limit.verifies, "the verifications"))
	if err := b.signedInside(); err != nil {
		return err
	}
	few, err := b.plainRequests(b.size.through)
	if err != nil {
		return err
	}
	through, err := b.loads(trial{name: "signed-through", ops: few, want: authorized, end: op.StateSucceeded})
	if err != nil {
		return err
	}
	b.ratioRow("signed, 32 clients, through to succeeded", through, 6.5)
	if b.limit.script > 0 {
		b.addf("signed decided, against the script", decided.rate/b.limit.script, times, 15,
			"the script does %.0f/s", b.limit.script)
	}
	return b.signedSingle()
}

// signedInside is the decided load without HTTP.
func (b *bench) signedInside() error {
	all, err := b.destroys(b.size.many, b.keys.plain)
	if err != nil {
		return err
	}
	inside, allocated, err := b.inside("signed", len(all), op.StateAuthorized, func(g *gate.Gate, k int) error {
		_, err := g.ApproveOffline(b.ctx, caller, authz.Envelope{Payload: all[k].payload, Signatures: all[k].armors})
		return err
	})
	if err != nil {
		return err
	}
	b.addf("  the same without the socket", inside, perSecond, 0, "calls of the gate in one process")
	b.allocationRows(allocated, signedThen)
	return nil
}

// calls measures a call that decides nothing: the socket, HTTP and this client.
func (b *bench) calls() error {
	requests := slices.Repeat([]exchange{{get("/v1/status")}}, 2*b.size.many)
	var calls float64
	_, err := b.onGate("calls", Served{}, func(p *process, _ string) (err error) {
		calls, err = median(b.size.runs, func() (float64, error) {
			took, _, err := load(p.socket, clients, requests, host)
			return rate(len(requests), took), err
		})
		return err
	})
	if err != nil {
		return err
	}
	b.addf("limit: calls that decide nothing, 32 clients", calls, perSecond, 0, "socket, HTTP and load generator")
	return nil
}

// signedSingle is one client: how long until its operation is decided, and how long
// until the client sees that it succeeded.
func (b *bench) signedSingle() error {
	requests, err := b.plainRequests(b.size.single)
	if err != nil {
		return err
	}
	var decided, done []float64
	file := filepath.Join(b.Dir, "single-sync")
	before, err := b.syncs(file)
	if err != nil {
		return err
	}
	s := Served{Guests: len(requests), Run: true}
	dir, err := b.onGate("single", s, func(p *process, _ string) (err error) {
		decided, done, err = oneByOne(p.socket, requests)
		return err
	})
	if err != nil {
		return err
	}
	after, err := b.syncs(file)
	if err != nil {
		return err
	}
	sync := 1000 * (1/before + 1/after) / 2
	b.addf("signed, 1 client, p50 decided", middle(decided), milliseconds, 2.5*sync+0.25,
		"the budget is 2.5 × an fdatasync, which takes %.2f ms, and 0.25 ms; p99 %.2f ms", sync, quantile(decided, 0.99))
	b.addf("signed, 1 client, p50 to succeeded", middle(done), milliseconds, 1.6,
		"p99 %.2f ms; three commits; the client asks again and again", quantile(done, 0.99))
	return b.ended(dir, op.StateSucceeded, len(requests))
}

// oneByOne sends requests one after the other, each when the one before it has
// succeeded.
func oneByOne(socket string, requests []exchange) (decided, done []float64, err error) {
	c, err := dial(socket)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	for _, r := range requests {
		sent := now()
		answer, err := c.doAll(r)
		if err != nil {
			return nil, nil, err
		}
		decided = append(decided, inMillis(now().Sub(sent)))
		ask := get("/v1/jobs/" + between(answer, `"job":"`))
		for !bytes.Contains(answer, []byte(succeeded)) {
			if now().Sub(sent) > patience {
				return nil, nil, errTooLong
			}
			if answer, err = c.do(ask); err != nil {
				return nil, nil, err
			}
		}
		done = append(done, inMillis(now().Sub(sent)))
	}
	return decided, done, nil
}
