package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/base/op"
)

func agentKinds() []kind {
	return []kind{
		{name: "agent registers", do: register, check: registered},
		{name: "agent ends", prepare: holds, do: unregister, check: letGo},
		{name: "reserve", prepare: agents, do: reserve, check: heldBy("a")},
		{name: "renew", prepare: holds, do: renew, check: renewed},
		{name: "transfer", prepare: holds, do: transfer, check: heldBy("b")},
		{name: "release", prepare: holds, do: release, check: letGo},
		{name: "release all of mine", prepare: holds, do: releaseMine, check: letGo},
		{name: op.ForceTransfer, prepare: holds, do: forceTransfer, check: heldBy("b")},
		{name: op.ReleaseAll, prepare: holds, do: releaseAll, check: letGo},
	}
}

// agent is the way of one of the cell's agents to the daemon, who goes by a
// token.
func (b *bench) agent(ctx context.Context, name string) (*client.Client, error) {
	got, err := b.client().RegisterAgent(ctx, api.RegisterAgent{Name: b.name(name), Token: true})
	if err = b.answered(err); err != nil {
		return nil, err
	}
	c, err := client.New(client.Options{Socket: b.m().socket, Getenv: func(string) string { return "" }, Token: got.Token})
	if err == nil {
		b.agents[name] = c
	}
	return c, err
}

// agents registers two agents and makes a checkout.
func agents(ctx context.Context, b *bench, c *cell) error {
	for _, name := range []string{"a", "b"} {
		if _, err := b.agent(ctx, name); err != nil {
			return err
		}
	}
	dir, err := filepath.EvalSymlinks(b.m().dir)
	if err != nil {
		return err
	}
	c.told["dir"] = filepath.Join(dir, b.name("checkout"))
	return os.Mkdir(c.told["dir"], 0o700)
}

// holds registers two agents, of whom one has paths of a checkout.
func holds(ctx context.Context, b *bench, c *cell) error {
	if err := agents(ctx, b, c); err != nil {
		return err
	}
	if err := reserve(ctx, b, c); err != nil {
		return err
	}
	c.done = false
	return nil
}

func reserve(ctx context.Context, b *bench, c *cell) error {
	place, err := checkout.At(c.told["dir"])
	if err != nil {
		return err
	}
	r, err := b.agents["a"].Reserve(ctx, api.Reserve{Scope: place, Patterns: []string{"src/**"}, TTLSeconds: 600})
	if err = b.answered(err); err != nil {
		return err
	}
	c.done, c.told["id"], c.told["scope"], c.told["holder"] = true, r.ID, r.ScopeID, b.name("a")
	c.told["until"] = r.ExpiresAt.Format(time.RFC3339Nano)
	return nil
}

func register(ctx context.Context, b *bench, c *cell) error {
	_, err := b.agent(ctx, "a")
	c.done = err == nil
	return err
}

func registered(ctx context.Context, b *bench, c *cell) []string {
	all, err := b.client().Agents(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	there := false
	for _, a := range all {
		there = there || a.Name == b.name("a")
	}
	if !there && c.done {
		return []string{b.name("a") + " was told to be registered and is not"}
	}
	if !c.done {
		return nil // its token was never told
	}
	self, err := b.agents["a"].Self(ctx)
	if err != nil || self.Agent == nil || self.Agent.Name != b.name("a") {
		return []string{fmt.Sprintf("the token of %s is nobody's: %v", b.name("a"), err)}
	}
	return nil
}

// reservation finds the cell's reservation, which may have another id than it was
// told, for nobody was.
func (b *bench) reservation(ctx context.Context, c *cell) (r api.Reservation, there bool, err error) {
	all, err := b.client().AllReservations(ctx, client.ReservationQuery{})
	for _, x := range all {
		if x.Scope == c.told["dir"] {
			if there {
				return r, there, errors.New("two have what one may have: " + r.ID + " " + x.ID)
			}
			r, there = x, true
		}
	}
	return r, there, err
}

// heldBy says that who has the reservation is not who was told to.
func heldBy(agent string) func(context.Context, *bench, *cell) []string {
	return func(ctx context.Context, b *bench, c *cell) []string {
		r, there, err := b.reservation(ctx, c)
		wrong := ended(ctx, b, c)
		if c.job == "" {
			wrong = nil // no step
		}
		succeeded := c.job != "" && b.state(ctx, c) == op.StateSucceeded
		switch {
		case err != nil:
			return append(wrong, err.Error())
		case !there && (c.done || c.told["id"] != ""):
			wrong = append(wrong, "a reservation that was told of is lost")
		case there && (c.done || succeeded) && r.Agent != b.name(agent):
			wrong = append(wrong, fmt.Sprintf("%s is %s's and not %s's", r.ID, r.Agent, b.name(agent)))
		case there && r.Agent != b.name("a") && r.Agent != b.name("b"):
			wrong = append(wrong, r.ID+" is "+r.Agent+"'s")
		}
		return wrong
	}
}

// letGo says that what was told to have ended is there.
func letGo(ctx context.Context, b *bench, c *cell) []string {
	r, there, err := b.reservation(ctx, c)
	switch {
	case err != nil:
		return []string{err.Error()}
	case there && c.done:
		return []string{r.ID + " was told to have ended and has not"}
	case there && r.Agent != b.name("a"):
		return []string{r.ID + " is " + r.Agent + "'s"}
	case !there && c.job != "" && b.state(ctx, c) == op.StatePending:
		return []string{c.told["id"] + " has ended, and nobody has signed that"}
	}
	return nil
}

func unregister(ctx context.Context, b *bench, c *cell) error {
	_, err := b.agents["a"].Unregister(ctx, b.name("a"))
	err = b.answered(err)
	c.done = err == nil
	return err
}

func renew(ctx context.Context, b *bench, c *cell) error {
	r, err := b.agents["a"].Renew(ctx, c.told["id"], time.Hour)
	if err = b.answered(err); err == nil {
		c.done, c.told["renewed"] = true, r.ExpiresAt.Format(time.RFC3339Nano)
	}
	return err
}

func renewed(ctx context.Context, b *bench, c *cell) []string {
	wrong := heldBy("a")(ctx, b, c)
	r, _, _ := b.reservation(ctx, c)
	until := r.ExpiresAt.Format(time.RFC3339Nano)
	if c.done && until != c.told["renewed"] {
		wrong = append(wrong, fmt.Sprintf("%s was told to last until %s and lasts until %s", r.ID, c.told["renewed"], until))
	}
	return wrong
}

func transfer(ctx context.Context, b *bench, c *cell) error {
	_, err := b.agents["a"].Transfer(ctx, c.told["id"], b.name("b"))
	err = b.answered(err)
	c.done = err == nil
	return err
}

func release(ctx context.Context, b *bench, c *cell) error {
	_, err := b.agents["a"].Release(ctx, c.told["id"])
	err = b.answered(err)
	c.done = err == nil
	return err
}

func releaseMine(ctx context.Context, b *bench, c *cell) error {
	_, err := b.agents["a"].ReleaseMine(ctx)
	err = b.answered(err)
	c.done = err == nil
	return err
}

func forceTransfer(ctx context.Context, b *bench, c *cell) error {
	return b.ask(ctx, c, true, api.Ask{Op: op.ForceTransfer, Target: "scope/" + c.told["scope"],
		Params: op.Params{"reservation": c.told["id"], "to": b.name("b")}})
}

func releaseAll(ctx context.Context, b *bench, c *cell) error {
	return b.ask(ctx, c, true, api.Ask{Op: op.ReleaseAll, Target: "scope/" + c.told["scope"], Params: op.Params{}})
}
