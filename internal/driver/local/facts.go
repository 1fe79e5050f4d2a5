package local

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/driver"
)

// These bounds limit the look through a guest's data for facts.
const (
	maxCounted = 100_000         // entries
	maxLooking = 2 * time.Second // of waiting
)

// These facts hold for every guest of this driver. Operators ask for them before they sign, and
// "not known" is an answer, too.
const (
	noBackups    = "none known; gated makes none"
	noDependents = "nothing known; no guest shares data"
)

// facts says what operators should see before they sign. If it cannot find out something, it
// says so and does not fail. A guest may lock its data, and the operator must still be able to
// stop it. A look after a step must not make the step's end uncertain.
func (d *Driver) facts(ctx context.Context, g *guest) []op.Fact {
	facts, err := g.dataFacts(ctx)
	if err != nil {
		d.cfg.Logger.Warn("data not counted", "guest", g.name, "err", err)
		facts = []op.Fact{{Name: "files", Text: "cannot be counted: " + reason(err)}}
	}
	facts = append(facts, op.Fact{Name: "snapshots", Text: g.snapshotsText()}, op.Fact{Name: "backups", Text: noBackups},
		op.Fact{Name: "depends on it", Text: noDependents})
	facts = append(facts, d.processFacts(ctx, g)...)
	return append(facts, d.undoFacts()...)
}

// reason is an error without the path, because a guest may have chosen the path.
func reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "the daemon's log says why"
}

func (g *guest) dataFacts(ctx context.Context) ([]op.Fact, error) {
	data, err := g.dir.sub(dataDir)
	if err != nil {
		return nil, err
	}
	defer data.close()
	bounded, cancel := context.WithTimeout(ctx, maxLooking)
	defer cancel()
	u, err := measure(bounded, data, maxCounted)
	if err != nil {
		return nil, err
	}
	more := atLeast(u.partial)
	last := "never"
	if !u.last.IsZero() {
		last = atLeastThen(u.partial, u.last)
	}
	return []op.Fact{
		{Name: "files", Text: more + strconv.FormatInt(u.files, 10)},
		{Name: "bytes", Text: fmt.Sprintf("%s%s (%s on disk)", more, driver.Size(u.apparent), driver.Size(u.allocated))},
		{Name: "last write", Text: last},
	}, nil
}

func atLeastThen(partial bool, t time.Time) string {
	if partial {
		return timeText(t) + " or later"
	}
	return timeText(t)
}

func (g *guest) snapshotsText() string {
	if len(g.snapshots) == 0 {
		return "none"
	}
	names := make([]string, len(g.snapshots))
	for i, s := range g.snapshots {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

func (d *Driver) processFacts(ctx context.Context, g *guest) []op.Fact {
	run, left := d.lives(ctx, g)
	if run == nil {
		return []op.Fact{{Name: "process", Text: left.text()}}
	}
	confined := "confined to its data by Landlock"
	if !run.Confined {
		confined = "unconfined"
	}
	facts := []op.Fact{
		{Name: "process", Text: fmt.Sprintf("%s, running since %s (pid %d), %s", run.Command, timeText(run.StartedAt), run.PID, confined)},
		{Name: op.FactLimits, Text: g.limitsText(*run)},
	}
	if run.Unproved != "" {
		facts = append(facts, op.Fact{Name: "earlier run", Text: notProved(run.Unproved)})
	}
	return facts
}

// text is what people read of the processes that a run left.
func (v verdict) text() string {
	switch {
	case errors.Is(v.err, errNotEnded):
		return "processes of an earlier run are left"
	case v.err != nil:
		return "processes of an earlier run do not end"
	case v.doubt != "":
		return notProved(v.doubt)
	}
	return "none"
}

// limitsText says which limits the running process has, not which the guest's spec asks for. If
// rlimits set them, a change takes effect at the next start.
func (g *guest) limitsText(run runFile) string {
	memory, cpus := "memory not limited", "cpus not limited"
	if g.Memory > 0 {
		memory = fmt.Sprintf("memory %d MiB", g.Memory)
		switch run.Memory {
		case byRlimits:
			memory += " of address space by rlimits, as it was at the start"
		case byNothing:
			memory += " from the next start on"
		default:
			memory += " by " + run.Memory
		}
	}
	if g.CPUs > 0 {
		cpus = fmt.Sprintf("cpus %d by %s", g.CPUs, run.CPUs)
		if run.CPUs == byNothing {
			cpus = fmt.Sprintf("cpus %d not enforced (no cgroup)", g.CPUs)
		}
	}
	return memory + "; " + cpus
}

// undoFacts says what could be undone if a step ran now.
func (d *Driver) undoFacts() []op.Fact {
	until := timeText(d.cfg.Now().Add(d.cfg.TrashKeep))
	return []op.Fact{
		{Name: "destroy", Text: "can be undone until " + until},
		{Name: "wipe, restore, snapshot-delete", Text: "can be undone by hand until " + until + ": copy the old files out of " +
			op.Shown(d.trash.path())},
	}
}

func timeText(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

// aboutCopy adds facts for people to a look for a step that restores or deletes a snapshot. If
// it cannot find out something, a fact says that, and the look goes on.
func (d *Driver) aboutCopy(ctx context.Context, l op.Look, g *guest, o *op.Observed) {
	spec, err := op.Lookup(l.Op)
	if err != nil || spec.Copy != "snapshot" {
		return
	}
	s, ok := g.snapshot(l.Params.Str("snapshot"))
	if !ok {
		return
	}
	o.Copy = &op.Copy{Kind: "snapshot", Name: s.name, Made: time.Unix(0, s.birth)}
	bounded, cancel := context.WithTimeout(ctx, maxLooking)
	defer cancel()
	over := ""
	if l.Op == "guest.restore" {
		over = d.newerText(bounded, g, s.birth)
	}
	o.Facts = append(o.Copy.Facts(d.snapshotText(bounded, g, s.name), over), o.Facts...)
}

// snapshotText describes how much a snapshot holds.
func (d *Driver) snapshotText(ctx context.Context, g *guest, name string) string {
	var u usage
	err := g.in(snapshotsDir, func(all *dir) error {
		tree, err := all.sub(name)
		if err != nil {
			return err
		}
		defer tree.close()
		u, err = measure(ctx, tree, maxCounted)
		return err
	})
	if err != nil {
		d.cfg.Logger.Warn("a snapshot is not counted", "guest", g.name, "snapshot", name, "err", err)
		return "cannot be counted: " + reason(err)
	}
	return fmt.Sprintf("%s%s, %s (%s on disk)", atLeast(u.partial), files(u.files), driver.Size(u.apparent), driver.Size(u.allocated))
}

// newerText describes how much of a guest's data is newer than a moment.
func (d *Driver) newerText(ctx context.Context, g *guest, since int64) string {
	var u usage
	err := g.in(dataDir, func(data *dir) (err error) {
		u, err = measureSince(ctx, data, maxCounted, since)
		return err
	})
	switch {
	case err != nil:
		return "cannot be counted: " + reason(err)
	case u.newer.files == 0 && !u.partial:
		return fmt.Sprintf("none of %s was written or changed since then; what was deleted since comes back", files(u.files))
	}
	last := ""
	if u.newer.files > 0 {
		last = ", the last " + atLeastThen(u.partial, time.Unix(0, u.newer.last))
	}
	return fmt.Sprintf("%s%s (%s) of %d, written or changed since then%s", atLeast(u.partial), files(u.newer.files), driver.Size(u.newer.bytes), u.files, last)
}

func files(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return strconv.FormatInt(n, 10) + " files"
}

func atLeast(partial bool) string {
	if partial {
		return "more than "
	}
	return ""
}

// in runs fn on a directory of the guest's.
func (g *guest) in(name string, fn func(*dir) error) error {
	sub, err := g.dir.sub(name)
	if err != nil {
		return err
	}
	defer sub.close()
	return fn(sub)
}
