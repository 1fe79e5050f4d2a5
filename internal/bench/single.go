package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"gated/internal/op"
)

// signedSingle is one client that signs nothing: how long until its operation
// is decided, and how long until it sees that it was done.
func (b *bench) signedSingle() error {
	dir, err := b.gateDir("single")
	if err != nil {
		return err
	}
	requests, err := b.plainRequests(singleOps)
	if err != nil {
		return err
	}
	p, err := b.serving(Served{Dir: dir, Guests: singleOps, Run: true})
	if err != nil {
		return err
	}
	decided, done, err := oneByOne(p.socket, requests)
	if err = errors.Join(err, p.stop()); err != nil {
		return err
	}
	beside := fmt.Sprintf("p99 %.2f ms; one fdatasync takes %.2f ms", quantile(decided, 0.99), 1000/b.limit.syncs)
	b.table.add(row{"signed, 1 client, p50 decided", middle(decided), milliseconds, 0.8, beside})
	b.table.add(row{"signed, 1 client, p50 to succeeded", middle(done), milliseconds, 1.6,
		fmt.Sprintf("p99 %.2f ms; three commits; asked again and again until it says so", quantile(done, 0.99))})
	return b.sound(dir, op.StateSucceeded, singleOps)
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
		ask := get("/v1/jobs/" + jobIn(answer))
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

// jobIn finds the job's id in an answer.
func jobIn(answer []byte) string {
	_, rest, _ := strings.Cut(string(answer), `"job":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}
