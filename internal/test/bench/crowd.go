package bench

import (
	"context"
	"errors"
	"fmt"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// others are reservations beside those that are measured. Each of their holders has
// as many as it may, and all of them last as long as they may.
type others struct {
	place api.Place
	n     int // how many there are
}

// seeders is how many of the others are made at a time.
const seeders = 128

// upTo makes others, as a gate would grant them, until there are n. Each has a file
// of its own, a hundred in a directory.
func (o *others) upTo(ctx context.Context, dir string, n int) error {
	h, err := openHistory(ctx, dir)
	if err != nil {
		return err
	}
	book, place := bookOf(h, o.place)
	first := o.n
	_, _, err = share(seeders, n-first, func(_, k int) error {
		k += first
		by := op.Requester{Source: op.SourceAPI, UID: uint32(100_000 + k/reserve.MaxPerHolder), PID: 1}
		_, _, err := book.Reserve(ctx, reserve.Claim{By: by, Place: place, Mode: reserve.Exclusive,
			Patterns: []string{fmt.Sprintf("src/d%d/f%d.go", k/100, k)}, TTL: reserve.MaxTTL})
		return err
	})
	o.n = n
	return errors.Join(err, h.close())
}

// bookOf is a gate's book in this process, and the place as the book has it.
func bookOf(h *history, at api.Place) (*reserve.Book, reserve.Place) {
	book := reserve.New(reserve.Config{Store: h.store, Now: now,
		Append: func(tx *store.Tx, entries ...audit.Entry) error {
			for i := range entries {
				entries[i].Time, entries[i].Gate = now(), h.gate
			}
			_, err := audit.Append(tx, entries...)
			return err
		}})
	return book, reserve.Place{Path: at.Path, Device: at.Device, Inode: at.Inode, Fold: at.Fold}
}

// pairsInside makes pairs in this process, without the socket, and returns how many
// a second has.
func (b *bench) pairsInside(dir string, at api.Place) (float64, error) {
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return 0, err
	}
	book, place := bookOf(h, at)
	free := make(chan int, holders)
	for i := range holders {
		free <- i
	}
	n, err := median(b.size.runs, func() (float64, error) {
		return during(holders, 2*b.size.limitTime, func() error {
			i := <-free
			defer func() { free <- i }()
			by := op.Requester{Source: op.SourceAPI, UID: uint32(10_000 + i), PID: 1}
			g, _, err := book.Reserve(b.ctx, reserve.Claim{By: by, Place: place,
				Patterns: []string{fmt.Sprintf("work/c%d/**", i)}, Reason: "bench"})
			if err == nil {
				_, err = book.Release(b.ctx, by, g.ID)
			}
			return err
		})
	})
	return n, errors.Join(err, h.close())
}

// scope makes a directory to reserve in.
func (b *bench) scope(name string) (api.Place, error) {
	dir, err := b.dir(name)
	if err != nil {
		return api.Place{}, err
	}
	dir, err = checkout.Resolve(dir)
	if err != nil {
		return api.Place{}, err
	}
	return checkout.At(dir)
}

// holding is a client with a name of its own, which its token proves.
type holding struct {
	*conn
	token string
}

// join registers a client under a name.
func join(socket, name string) (*holding, error) {
	c, err := dial(socket)
	if err != nil {
		return nil, err
	}
	request, err := post("/v1/agents", api.RegisterAgent{Name: name, Token: true})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	answer, err := c.do(request)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &holding{c, between(answer, `"token":"`)}, nil
}

// claim is a call that reserves patterns.
func (h *holding) claim(in api.Reserve) ([]byte, error) {
	request, err := post("/v1/reservations", in)
	return h.as(request), err
}

// release is a call that ends a reservation.
func (h *holding) release(id string) []byte {
	return h.as([]byte("DELETE /v1/reservations/" + id + " HTTP/1.1\r\nHost: gated\r\n\r\n"))
}

// pair reserves and releases, each durably.
func (h *holding) pair(claim []byte) error {
	answer, err := h.do(claim)
	if err == nil {
		_, err = h.do(h.release(between(answer, `"id":"`)))
	}
	return err
}
