package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/life"
)

// markAhead is how far in the future the mark is put.
const markAhead = 60 * 24 * time.Hour

func timeKinds() []kind {
	return []kind{{name: "time accept", launches: true, prepare: doubted, do: acceptTime, recover: accepted, check: neverCounts}}
}

// doubted leaves a request behind whose approval was signed and not sent, and a
// time mark that the clock is far behind of.
func doubted(ctx context.Context, b *bench, c *cell) error {
	if err := waits(ctx, b, c); err != nil {
		return err
	}
	payload, err := b.client().Payload(ctx, c.job+".1")
	if err != nil {
		return err
	}
	armor, err := b.m().signer.Sign(ctx, op.Operational, payload)
	if err != nil {
		return err
	}
	b.past = append(b.past, &signature{request: c.job + ".1", envelope: api.EnvelopeOf(payload, armor)})
	b.m().finish()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.m().state, "gated.db"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `UPDATE time_mark SET unix = unix + ?, boot = 'another'`, int64(markAhead/time.Second))
	return errors.Join(err, db.Close())
}

func acceptTime(ctx context.Context, b *bench, _ *cell) error {
	return b.command(ctx, "time", "accept", "--yes")
}

// accepted has the clock taken for right, if it was not yet, and starts the
// daemon: under a new gate id, for which nothing counts that was signed before.
func accepted(ctx context.Context, b *bench, c *cell) error {
	b.m().sound("after an acceptance that was cut off")
	was, err := life.Time(ctx, b.m().state)
	if err == nil && !was.Believed {
		err = acceptTime(ctx, b, c)
	}
	if err != nil {
		return err
	}
	l := b.checked.ledger
	b.past, l.approvals = append(b.past, l.approvals...), nil
	return b.m().begin()
}

// neverCounts says which approvals count that were signed for the gate id of
// before, and whether what waited was lost.
func neverCounts(ctx context.Context, b *bench, c *cell) []string {
	wrong := b.refused(ctx)
	if state := b.state(ctx, c); state != op.StatePending {
		wrong = append(wrong, fmt.Sprintf("%s waited and is %s", c.job, state))
	}
	return wrong
}
