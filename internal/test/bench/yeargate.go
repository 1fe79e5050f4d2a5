package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver/memory"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/host/life"
	"gated/internal/host/retention"
	"gated/internal/host/state"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

// ticks is how often in a day the clock goes on. Each part of a day has as many decisions.
const ticks = 20

// year is a gate with a simulated clock, over guests in memory.
type year struct {
	*bench
	size    yearSize
	dir     string
	key     checkpoint.Key
	id      op.GateID
	driver  *memory.Driver
	store   *store.Store
	gate    *gate.Gate
	keeper  *retention.Keeper
	began   time.Time
	passed  atomic.Int64 // nanoseconds of the simulated clock
	today   int
	guests  atomic.Int64 // that came and went
	decided atomic.Int64
	keyed   atomic.Int64 // submissions that may be sent again

	signed, rejected, cancelled, refused atomic.Int64

	played, archiving time.Duration
	beside, alone     []float64 // milliseconds of each decision while a day was archived, and of as many after it
}

// newYear makes a gate as init does. The clock begins now, because the first entries are of now.
func newYear(b *bench, size yearSize) (*year, error) {
	dir, err := b.state("year")
	if err != nil {
		return nil, err
	}
	y := &year{bench: b, size: size, dir: dir, began: now().UTC().Add(time.Minute)}
	y.driver = memory.New(func() time.Time { return y.read().Wall })
	for _, name := range append(append(y.names("g", clients*turning), y.names("keep", size.perDay/100+1)...), y.names("wait", size.perDay/100+1)...) {
		y.driver.Put(name, alike(1)[0])
	}
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return nil, err
	}
	y.id = h.gate
	if err := h.close(); err != nil {
		return nil, err
	}
	if y.key, err = checkpoint.NewKey(y.id); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, state.KeyName), []byte(y.key.Text()), 0o600); err != nil {
		return nil, err
	}
	if err := y.open(); err != nil {
		return nil, err
	}
	return y, y.store.Update(b.ctx, func(tx *store.Tx) error {
		return errors.Join(audit.SetPublicKey(tx, y.id, y.key.Public),
			y.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Detail: y.key.Public, Parts: audit.Parts{HeadKey: y.key.Public}}))
	})
}

func (y *year) names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// read is the simulated clock.
func (y *year) read() nonce.Reading {
	passed := time.Duration(y.passed.Load())
	return nonce.Reading{Wall: y.began.Add(passed), Elapsed: passed, Boot: "year"}
}

// open opens the gate and its keeper, as a start does.
func (y *year) open() error {
	log := slog.New(slog.DiscardHandler)
	lines, err := os.ReadFile(filepath.Join(y.dir, "allowed_signers"))
	if err != nil {
		return err
	}
	trust, err := authz.LoadTrust(lines)
	if err != nil {
		return err
	}
	y.store, err = store.Open(y.ctx, databaseIn(y.dir), store.Options{Migrations: life.Migrations(), Logger: log})
	if err != nil {
		return err
	}
	c := gate.Config{Store: y.store, Observer: y.driver, Host: host, ID: y.id, Trust: trust, Epoch: 1, Policy: policy.Default(), Key: y.key.Signer, Logger: log}
	err = y.store.View(y.ctx, func(tx *store.Tx) (err error) {
		c.Clock, err = nonce.LoadClock(tx, y.read)
		return err
	})
	if err != nil {
		return err
	}
	if y.gate, err = gate.New(c); err != nil {
		return err
	}
	y.keeper, err = retention.New(retention.Config{Store: y.store, Dir: archive.NewDir(filepath.Join(y.dir, life.ArchiveName)), After: y.size.after, Keep: y.size.keep,
		Gate: y.id, Schema: len(life.Migrations()), Append: y.gate.Append, Moment: y.gate.Moment, Up: func() time.Duration { return y.read().Elapsed },
		Admit: func(int64) error { return nil }, Rest: func(context.Context, time.Duration) {}})
	return err
}

func (y *year) close() error { return y.store.Close() }

func (y *year) archived() retention.State { return y.keeper.State() }

// day plays a day, and archives what is old enough then.
func (y *year) day(n int, archive func() error) error {
	y.today = n
	began := now()
	for tick := range ticks {
		jobs := y.size.perDay / ticks
		_, _, err := share(clients, jobs, func(caller, k int) error { return y.decision(caller, tick*jobs+k) })
		if err != nil {
			return err
		}
		y.passed.Add(int64(24 * time.Hour / ticks))
		if err := y.gate.Tick(y.ctx); err != nil {
			return err
		}
	}
	y.played += now().Sub(began)
	began = now()
	if err := archive(); err != nil {
		return err
	}
	y.archiving += now().Sub(began)
	if held := y.archived().Held; held != "" {
		return fmt.Errorf("archiving is held: %s", held)
	}
	return nil
}

// archive archives all that may go, without a pause.
func (y *year) archive() error {
	for did := true; did; {
		var err error
		if did, err = y.keeper.Step(y.ctx); err != nil {
			return err
		}
	}
	return nil
}

// archiveBeside is archive while a caller has one benign step after the other decided. Then the caller does as many alone.
func (y *year) archiveBeside() error {
	ended := make(chan error, 1)
	go func() { ended <- y.archive() }()
	for k := 0; ; k++ {
		select {
		case err := <-ended:
			return errors.Join(err, y.timedDecisions(&y.alone, k))
		default:
		}
		if err := y.timedDecisions(&y.beside, 1); err != nil {
			return errors.Join(err, <-ended)
		}
	}
}

// timedDecisions has n benign steps decided and run, and keeps how long each decision took.
func (y *year) timedDecisions(to *[]float64, n int) error {
	for range n {
		sent := now()
		id, err := y.decide(0, len(*to))
		*to = append(*to, inMillis(now().Sub(sent)))
		if err == nil {
			err = y.run(id, 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// complete is an error unless records were archived and all of them are sound, with the segment files.
func (y *year) complete() error {
	return y.store.View(y.ctx, func(tx *store.Tx) error {
		last, err := audit.LastSegment(tx)
		if err != nil {
			return err
		}
		r, err := fsck.Checker{Archive: archive.NewDir(filepath.Join(y.dir, life.ArchiveName)), Migrations: life.Migrations()}.Run(tx)
		switch {
		case err != nil:
			return err
		case last.Number == 0 || r.Checked["archived jobs"] == 0:
			return errors.New("nothing was archived")
		case !r.Sound:
			return fmt.Errorf("fsck: %v", r.Problems[0])
		}
		return nil
	})
}

// yearSizes is what a database and its segments have, in MiB.
type yearSizes struct {
	mib, free, segments float64
	jobs, entries       int64
	tables              string
}

func (y *year) sizes() (s yearSizes, err error) {
	err = y.store.View(y.ctx, func(tx *store.Tx) error {
		var pages, free, width, segments int64
		err := tx.QueryRow(`SELECT page_count, freelist_count, page_size, (SELECT coalesce(sum(bytes), 0) FROM segments), (SELECT count(*) FROM jobs), (SELECT count(*) FROM audit)
			FROM pragma_page_count, pragma_freelist_count, pragma_page_size`).Scan(&pages, &free, &width, &segments, &s.jobs, &s.entries)
		if err != nil {
			return err
		}
		s.mib, s.free, s.segments = inMebi(pages*width), inMebi(free*width), inMebi(segments)
		s.tables, err = largest(tx)
		return err
	})
	return s, err
}

func inMebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// largest names the largest tables and indexes, in MiB.
func largest(tx *store.Tx) (string, error) {
	rows, err := tx.Query(`SELECT name, sum(pgsize) FROM dbstat WHERE aggregate = TRUE GROUP BY name ORDER BY 2 DESC LIMIT 12`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name string
		var bytes int64
		if err := rows.Scan(&name, &bytes); err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("%s %.1f", name, inMebi(bytes)))
	}
	return strings.Join(out, ", "), rows.Err()
}
