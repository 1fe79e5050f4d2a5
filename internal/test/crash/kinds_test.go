package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
)

// kind is an operation that every crash point is tried with.
type kind struct {
	name     string
	launches bool // it starts programs itself: the daemon is down when it begins
	alone    bool // it leaves a state on which no other kind can go on

	prepare func(context.Context, *bench, *cell) error            // undisturbed
	do      func(context.Context, *bench, *cell) error            // may be cut off at any moment
	recover func(context.Context, *bench, *cell) error            // in the place of a look at the database and a start
	check   func(context.Context, *bench, *cell) (wrong []string) // beyond what always holds
}

// kinds are all of them. Those of op's catalogue go by their names there.
func kinds() []kind {
	var all []kind
	for _, some := range [][]kind{guestKinds(), dataKinds(), commandKinds(), decisionKinds(), agentKinds(), trustKinds(), lifeKinds(), timeKinds(), archiveKinds(), migrations()} {
		all = append(all, some...)
	}
	return all
}

func guestAsk(name string, c *cell, p op.Params) api.Ask {
	return api.Ask{Op: name, Target: "guest/" + c.name, Params: p}
}

// step returns what does one step, signed if it has to be.
func step(name string, params func(*cell) op.Params) func(context.Context, *bench, *cell) error {
	return func(ctx context.Context, b *bench, c *cell) error {
		p := op.Params{}
		if params != nil {
			p = params(c)
		}
		return b.ask(ctx, c, true, guestAsk(name, c, p))
	}
}

// running makes a guest with files and a snapshot, which runs.
func running(ctx context.Context, b *bench, c *cell) error {
	if err := stopped(ctx, b, c); err != nil {
		return err
	}
	err := b.ask(ctx, c, true, guestAsk("guest.start", c, op.Params{}))
	c.job, c.done = "", false
	return err
}

// stopped makes a guest with files and a snapshot.
func stopped(ctx context.Context, b *bench, c *cell) error {
	if err := b.ask(ctx, c, true, guestAsk("guest.create", c, op.Params{"command": "sleep", "memory": int64(64)})); err != nil {
		return err
	}
	if err := b.fill(ctx, c.name, b.random); err != nil {
		return err
	}
	g, err := b.client().Guest(ctx, c.name)
	if err != nil {
		return err
	}
	c.inc, c.digest = g.Incarnation, digest(b.m().t, b.path(c, "data"))
	err = b.ask(ctx, c, true, guestAsk("guest.snapshot", c, op.Params{"snapshot": "first"}))
	c.job, c.done = "", false
	return err
}

func destroyed(ctx context.Context, b *bench, c *cell) error {
	if err := running(ctx, b, c); err != nil {
		return err
	}
	err := b.ask(ctx, c, true, guestAsk("guest.destroy", c, op.Params{}))
	c.job, c.done = "", false
	return err
}

func (b *bench) path(c *cell, parts ...string) string {
	return filepath.Join(append([]string{b.m().root, c.name}, parts...)...)
}

func guestKinds() []kind {
	return []kind{
		{name: "guest.create", do: step("guest.create", func(*cell) op.Params { return op.Params{"command": "sleep", "state": "running"} }), check: made},
		{name: "guest.start", prepare: stopped, do: step("guest.start", nil), check: runs("running")},
		{name: "guest.stop", prepare: running, do: step("guest.stop", nil), check: runs("stopped")},
		{name: "guest.restart", prepare: running, do: step("guest.restart", nil), check: runs("running")},
		{name: "guest.set-config", prepare: running, do: step("guest.set-config", func(*cell) op.Params { return op.Params{"memory": int64(96)} }), check: configured},
		{name: "guest.destroy", prepare: running, do: step("guest.destroy", nil), check: ended},
		{name: "guest.undelete", prepare: destroyed, do: step("guest.undelete", nil), check: ended},
	}
}

// ended says that a step that was told to have succeeded is not, or that one that
// was acknowledged is still open.
func ended(ctx context.Context, b *bench, c *cell) (wrong []string) {
	switch state := b.state(ctx, c); {
	case state == "" && c.done, c.done && state != op.StateSucceeded:
		return []string{fmt.Sprintf("%s was told to be done and is %q", c.job, state)}
	case state != "" && state.Open() && state != op.StatePending:
		return []string{fmt.Sprintf("%s is %s for ever", c.job, state)}
	}
	return nil
}

// made compares a guest that was created with how its step ended.
func made(ctx context.Context, b *bench, c *cell) []string {
	wrong := ended(ctx, b, c)
	_, err := os.Stat(b.path(c))
	if there := err == nil; there != (b.state(ctx, c) == op.StateSucceeded) && b.state(ctx, c) != "" {
		wrong = append(wrong, fmt.Sprintf("%s: it is there: %v, and its step is %s", c.name, there, b.state(ctx, c)))
	}
	return wrong
}

// runs says that a guest is not in the state in which its step would have it,
// though that succeeded.
func runs(want string) func(context.Context, *bench, *cell) []string {
	return func(ctx context.Context, b *bench, c *cell) []string {
		wrong := ended(ctx, b, c)
		g, err := b.client().Guest(ctx, c.name)
		if err != nil || b.state(ctx, c) == op.StateSucceeded && g.State != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q after a step that succeeded: %v", c.name, g.State, err))
		}
		return wrong
	}
}

func configured(ctx context.Context, b *bench, c *cell) []string {
	wrong := ended(ctx, b, c)
	g, err := b.client().Guest(ctx, c.name)
	has := fmt.Sprint(g.Spec["memory"])
	if err != nil || has != "96" && (has != "64" || b.state(ctx, c) == op.StateSucceeded) {
		wrong = append(wrong, fmt.Sprintf("%s has %v MiB: %v", c.name, has, err))
	}
	return wrong
}

func dataKinds() []kind {
	first := func(*cell) op.Params { return op.Params{"snapshot": "first"} }
	second := func(*cell) op.Params { return op.Params{"snapshot": "second"} }
	return []kind{
		{name: "guest.snapshot", prepare: running, do: step("guest.snapshot", second), check: snapshotted},
		{name: "guest.snapshot-delete", prepare: running, do: step("guest.snapshot-delete", first), check: unsnapshotted},
		{name: "guest.wipe", prepare: changeable, do: step("guest.wipe", nil), check: replacedBy("")},
		{name: "guest.restore", prepare: changeable, do: step("guest.restore", first), check: replacedBy("first")},
	}
}

// changeable makes a running guest whose files differ from those of its snapshot
// and are this check's own to compare.
func changeable(ctx context.Context, b *bench, c *cell) error {
	if err := running(ctx, b, c); err != nil {
		return err
	}
	delete(b.checked.ledger.files, c.inc)
	c.told["first"] = c.digest
	if err := os.WriteFile(b.path(c, "data", "newer"), []byte(c.name), 0o600); err != nil {
		return err
	}
	c.digest = digest(b.m().t, b.path(c, "data"))
	return nil
}

// replacedBy says that a guest's files are neither the old ones nor those of a
// snapshot ("" for none), or that the old ones are nowhere.
func replacedBy(snapshot string) func(context.Context, *bench, *cell) []string {
	return func(ctx context.Context, b *bench, c *cell) []string {
		wrong, state := ended(ctx, b, c), b.state(ctx, c)
		want := c.told[snapshot]
		if snapshot == "" {
			want = op.SHA256(nil)
		}
		has := digest(b.m().t, b.path(c, "data"))
		switch {
		case has == want && state == "":
			wrong = append(wrong, c.name+" was changed by a step that nobody was told of")
		case has == want && !b.inTrash(c.digest):
			wrong = append(wrong, c.name+" is changed, and what it had is not in the trash")
		case has != want && has != c.digest:
			wrong = append(wrong, c.name+" is half of one and half of the other")
		case has != want && state == op.StateSucceeded:
			wrong = append(wrong, c.name+" is as before, though its step succeeded")
		}
		return wrong
	}
}

// inTrash reports whether the trash has a tree of that digest.
func (b *bench) inTrash(want string) bool {
	trees, err := filepath.Glob(filepath.Join(b.m().root, ".trash", "*~part~*"))
	if err != nil {
		b.m().t.Fatal(err)
	}
	for _, tree := range trees {
		if !strings.HasSuffix(tree, ".json") && digest(b.m().t, tree) == want {
			return true
		}
	}
	return false
}

func snapshotted(ctx context.Context, b *bench, c *cell) []string {
	wrong, has := ended(ctx, b, c), digest(b.m().t, b.path(c, "snapshots", "second"))
	if has != c.digest && (has != "" || b.state(ctx, c) == op.StateSucceeded) {
		wrong = append(wrong, c.name+" has a snapshot that is not its files")
	}
	return wrong
}

func unsnapshotted(ctx context.Context, b *bench, c *cell) []string {
	wrong, has := ended(ctx, b, c), digest(b.m().t, b.path(c, "snapshots", "first"))
	switch {
	case has == c.digest && b.state(ctx, c) == op.StateSucceeded:
		wrong = append(wrong, c.name+" has its snapshot, though its step succeeded")
	case has == "" && !b.inTrash(c.digest):
		wrong = append(wrong, c.name+" has no snapshot any more, nor has the trash")
	case has != "" && has != c.digest:
		wrong = append(wrong, c.name+" has half a snapshot")
	}
	return wrong
}
