package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

func (t *tool) batchCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:   "batch",
		Short: "Approve many requests, of several gates, with one signature",
		Long: `One confirmation and one signature for up to 1,000 requests. Each gate still decides on its own request. It takes a
batch only of a key whose line in allowed_signers names ROLE@batch.gated, and never for a change of the signers.

A request is ID, HOST/ID or ADDRESS/ID; opsign known lists hosts and addresses.`,
		Example: "  opsign batch approve pve1/j12.1 pve2/j3.1",
	}, "say what to do with the batch: approve, make or submit", t.batchApproveCommand(), t.batchMakeCommand(), t.batchSubmitCommand())
}

const (
	flagBatchExpires = "how long gates may count the batch, at most 1h"
	batchValidity    = 15 * time.Minute
)

func (t *tool) batchApproveCommand() *cobra.Command {
	var k keyFlags
	var yes, details bool
	var payloads []string
	var expires time.Duration
	c := t.Command(cli.Words{
		Use:   "approve REQUEST...",
		Short: "Show requests, ask once, sign once, and hand each gate its part",
		Long: `Shows each request, asks one question, makes one signature, and prints each gate's answer on a line of its own. A
request that is decided, takes no batch or changed after it was shown is left out and named. It does not wait
for outcomes. With --yes it leaves out what opsign show did not show before, as opsign approve refuses it.

Exits 0 if every request was taken, 3 if more people have to sign some, 1 if one was left out or refused.`,
		Example: "  opsign batch approve pve1/j12.1 pve2/j3.1\n  opsign batch approve j12.1 j13.1 --key ~/.ssh/id_ed25519 --yes",
	}, cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		asks, err := t.asker(yes, k, payloads...)
		if err != nil {
			return err
		}
		defer asks.close()
		b := &batch{asker: asks, expires: expires, details: details}
		defer b.end()
		if err := b.read(c.Context(), args); err != nil {
			return err
		}
		return b.approve(c.Context())
	})
	c.ValidArgsFunction = t.completeRequest
	t.keyFlags(c, &k)
	c.Flags().BoolVar(&yes, "yes", false, flagYesShown)
	t.payloadFlag(c, &payloads)
	c.Flags().BoolVar(&details, "details", false, flagDetails)
	c.Flags().DurationVar(&expires, "expires", batchValidity, flagBatchExpires)
	return c
}

// batch is one run of a batch's command.
type batch struct {
	*asker
	expires time.Duration
	details bool
	items   []*batched
	gates   map[string]*reached // by what stands before the / of a request; by address for submit
}

// batched is one request of a run, and its line of the answer.
type batched struct {
	Address client.Address `json:"address"`
	Host    string         `json:"host"`
	ID      string         `json:"id"`
	State   op.State       `json:"state"`   // after the answer; empty if there is none
	Missing int            `json:"missing"` // how many people still have to sign
	Error   *cli.Problem   `json:"error"`   // null if the gate took it

	q   question
	at  *reached
	err error
}

// read asks the gates for the requests that the command line names. What is wrong with one leaves that one out.
func (b *batch) read(ctx context.Context, refs []string) error {
	switch {
	case len(refs) > op.MaxBatch:
		return cli.Usage(fmt.Sprintf("a batch has at most %d requests, not %d", op.MaxBatch, len(refs)))
	case b.expires < time.Second || b.expires > op.MaxBatchValidity:
		return cli.Usage(fmt.Sprintf("--expires is %s, not 1s to %s", b.expires, op.MaxBatchValidity))
	}
	seen := map[string]bool{}
	for _, ref := range refs {
		gate, id := "", ref
		if i := strings.LastIndexByte(ref, '/'); i >= 0 {
			gate, id = ref[:i], ref[i+1:]
		}
		at, err := b.gate(gate)
		if err != nil {
			return err
		}
		it := &batched{ID: id, at: at}
		if it.q, it.err = at.question(ctx, b.tool, id); it.err == nil {
			it.Address, it.Host = at.cl.Address(), it.q.payload.Host
			it.err = answered(it.q.request)
		}
		if it.Host == "" {
			it.Host = gate // as it was named, because the gate did not say
		}
		digest := op.SHA256(it.q.bytes)
		if it.err == nil && seen[digest] {
			return cli.Usage(fmt.Sprintf("the request %s is named twice", op.Shown(ref)))
		}
		seen[digest] = true
		b.items = append(b.items, it)
	}
	return nil
}

// open returns the requests that are not left out.
func (b *batch) open() []*batched {
	return slices.DeleteFunc(slices.Clone(b.items), func(it *batched) bool { return it.err != nil })
}

// chooseRole returns the role to sign as. Requests that take no batch in it are left out.
func (b *batch) chooseRole() (op.Role, error) {
	var may []op.Role
	for _, it := range b.open() {
		for _, role := range it.q.request.Batch {
			if !slices.Contains(may, role) {
				may = append(may, role)
			}
		}
	}
	role, err := b.keys.flags.roleFor(may)
	if err != nil {
		return "", err
	}
	for _, it := range b.open() {
		if !slices.Contains(it.q.request.Batch, role) {
			it.err = refusal.New(refusal.NotAllowed, "%s takes no batch as %s", it.ID, role).WithHint("sign it alone: opsign approve")
		}
	}
	return role, nil
}

// showAll shows every request of the run in its order, and names those that are left out.
func (b *batch) showAll() error {
	for _, it := range b.items {
		if it.err != nil {
			b.Say("left out: %s: %s: %s\n", it.name(), cli.Inline(string(refusal.CodeOf(it.err))), cli.Inline(refusal.As(it.err).Detail))
			if c := (*changed)(nil); errors.As(it.err, &c) {
				if err := b.show(c.what); err != nil {
					return err
				}
			}
			continue
		}
		v := b.view(b.details)
		v.more = "--details" // opsign show would ask the gate of the flags
		if err := b.showRequest(it.q, v); err != nil {
			return err
		}
	}
	return nil
}

func (it *batched) name() string {
	if it.Host == "" {
		return cli.Inline(it.ID)
	}
	return cli.Inline(it.Host) + "/" + cli.Inline(it.ID)
}

const wordsConfirmBatch = "Sign %s of %s as %s with ONE signature, whatever their counts, sizes and times are by then? Type yes:"

// approve shows, confirms, signs and hands in.
func (b *batch) approve(ctx context.Context) error {
	role, err := b.chooseRole()
	if err != nil {
		return err
	}
	for _, it := range b.open() {
		it.q, it.err = b.allowed(it.q)
	}
	if err := b.showAll(); err != nil {
		return err
	}
	if len(b.open()) > 0 {
		if err := b.show(tally(b.open())); err != nil {
			return err
		}
		if err := b.keys.ready(ctx, b.use(role)); err != nil {
			return err
		}
		if err := b.confirm(wordsConfirmBatch, cli.Count(len(b.open()), "request"), cli.Count(b.hosts(), "gate"), role); err != nil {
			return err
		}
		if err := b.sign(ctx, role); err != nil {
			return err
		}
	}
	return b.summary()
}

// hosts counts the gates of the batch.
func (b *batch) hosts() int {
	gates := map[op.GateID]bool{}
	for _, it := range b.open() {
		gates[it.q.payload.Gate] = true
	}
	return len(gates)
}

func (b *batch) use(role op.Role) use {
	u := use{role: role, batch: true}
	for _, it := range b.open() {
		if !slices.Contains(u.gates, it.at.cl) {
			u.gates = append(u.gates, it.at.cl)
		}
	}
	return u
}

// sign looks once more at each request, signs what is as it was shown, and hands each gate its part.
func (b *batch) sign(ctx context.Context, role op.Role) error {
	signer, err := b.keys.key(ctx, b.use(role))
	if err != nil {
		return err
	}
	b.lookAgain()
	for _, it := range b.open() {
		it.q.moving = true // the question says so
		now, err := it.at.question(ctx, b.tool, it.ID)
		if it.err = err; err == nil {
			it.err = unchanged(it.q, now)
		}
	}
	items := b.open()
	if len(items) == 0 {
		return nil
	}
	payload, places, err := b.tree(role, items)
	if err != nil {
		return err
	}
	armor, err := signer.Sign(ctx, role, payload)
	if err != nil {
		return err
	}
	for i, it := range items {
		e := api.EnvelopeOf(it.q.bytes, armor)
		e.Batch = &places[i]
		it.handIn(ctx, b.tool, e)
	}
	return nil
}

// tree makes the batch over requests, and the place of each in it. It lives for at most as long as every payload may.
func (b *batch) tree(role op.Role, items []*batched) (payload []byte, places []api.Batched, err error) {
	var payloads [][]byte
	life := b.expires.Truncate(time.Second)
	for _, it := range items {
		payloads = append(payloads, it.q.bytes)
		life = min(life, it.q.payload.ExpiresAt.Sub(it.q.payload.IssuedAt))
	}
	tree, err := authz.NewBatchTree(payloads)
	if err != nil {
		return nil, nil, err
	}
	root, err := tree.Root()
	if err != nil {
		return nil, nil, err
	}
	now := b.now().UTC().Truncate(time.Second)
	payload, err = op.Batch{Role: role, Count: tree.Size(), Root: root, IssuedAt: now, ExpiresAt: now.Add(life)}.Encode()
	if err != nil {
		return nil, nil, err
	}
	for i := range items {
		path, err := tree.Path(i)
		if err != nil {
			return nil, nil, err
		}
		places = append(places, *convert.BatchedOf(&op.Inclusion{Batch: payload, Index: i, Path: path}))
	}
	return payload, places, nil
}

// summary prints a line for each request, and ends with the worst exit code.
func (b *batch) summary() error {
	return endsWorst(b.items, func(it *batched) (int, error) {
		code := api.Exit(it.err)
		if it.err == nil && it.State == op.StatePending {
			code = api.ExitWaits
		}
		return code, it.say(b.tool)
	})
}

func (it *batched) say(t *tool) error {
	it.Error = cli.ProblemOf(it.err)
	switch {
	case t.JSON:
		return t.Emit(it)
	case it.err != nil:
		t.Print("%s: %s: %s\n", it.name(), cli.Inline(string(it.Error.Code)), cli.Inline(it.Error.Detail))
	case it.State == op.StatePending:
		t.Print("%s: signed, and %d more have to sign\n", it.name(), it.Missing)
	default:
		t.Print("%s: %s\n", it.name(), cli.Inline(string(it.State)))
	}
	return nil
}
