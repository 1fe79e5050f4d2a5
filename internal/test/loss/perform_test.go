package loss

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/mint"
)

// play is one sequence under way.
type play struct {
	*machine
	o     *oracle
	job   []op.Ask // steps of a job that is put together
	owner actor
	shown map[op.RequestID]glance // what an operator looked at, to sign it later
	saw   map[op.RequestID][]byte // the payload that an operator was shown last
	read  map[string]times        // when its payload was read first, by nonce
	order []op.RequestID
	wrote []written
	did   int // actions that were done
	backs int // guests that came back under another name
}

// target is the name that an action is about.
func (p *play) target(a action) string {
	if list := p.bed.targets(); list != nil {
		return list[int(a.target)%len(list)]
	}
	return a.name(func(n string) bool { return p.bed.holder(n) != "" })
}

type written struct {
	name string
	mark mark
}

// durations and clock steps that a sequence can have.
var (
	spans = []time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour, 5 * time.Hour, 13 * time.Hour, 25 * time.Hour, 49 * time.Hour}
	leaps = []time.Duration{time.Minute, -time.Minute, 50 * time.Minute, -50 * time.Minute, 3 * time.Hour, -3 * time.Hour, 40 * time.Hour, -40 * time.Hour}
)

// run plays a sequence, and returns what the oracle found as *loss, or what kept it
// from looking.
func (p *play) run(seq []action) error {
	for i, a := range seq {
		p.o.say("%2d %s", i+1, a)
		p.did++
		last := i+1 == len(seq) || seq[i+1].kind != submits || seq[i+1].actor&more == 0
		if err := p.do(a, last); err != nil {
			return err
		}
		if err := p.rest(); err != nil {
			return err
		}
		if err := p.o.look(); err != nil {
			return err
		}
		for _, name := range p.o.acted { // what an operator signed away is no benign change
			p.moved(name)
		}
		p.o.acted = nil
		if p.o.disturbed {
			p.moved("")
		}
		p.o.disturbed = false
		if len(p.o.shared) > 0 { // a step on one guest changes what another one shows
			p.moved("")
		}
	}
	return p.end()
}

// do performs one action. What a caller is refused is no error.
func (p *play) do(a action, last bool) error {
	switch a.kind {
	case submits:
		return p.submit(a, last)
	case writes:
		p.write(a)
	case erases, renames:
		p.own(a)
	case wishes:
		return p.wish(a)
	case injects:
		in := p.life.injector
		in.mu.Lock()
		in.plots = append(in.plots, plot{mishap(a.args[0]) % mishapCount, int(a.args[1] % 3), 1 + int(a.args[2]%3)})
		if a.args[3] != 0 { // and then another one: a step that is slow, and fails in the end
			in.plots = append(in.plots, plot{mishap: mishap(a.args[3]-1) % mishapCount, times: 1})
		}
		in.mu.Unlock()
	case passes:
		return p.pass(spans[int(a.args[0])%len(spans)])
	case steps:
		p.clock.step(leaps[int(a.args[0])%len(leaps)])
	case restarts:
		return p.restart()
	case kills:
		return p.kill()
	case reboots:
		err := p.stop()
		p.clock.reboot()
		return errors.Join(err, p.start())
	case sweeps:
		if p.life.gate.Moment().Trusted { // as the daemon does
			p.ran.moved()
			return p.bed.sweep()
		}
	case ticks:
		return p.tick()
	case meddles:
		return p.meddle(a)
	case lurks:
		p.o.serial++
		l := lurkOf(a, p.target(a), int64(p.o.serial))
		in := p.life.injector
		in.mu.Lock()
		in.lurks = append(in.lurks, l)
		in.mu.Unlock()
	case reloads:
		p.policy = policies[int(a.args[0])%len(policies)]
		return p.life.gate.Reload(p.ctx, nil, p.policy)
	default:
		return p.decide(a)
	}
	return nil
}

func (p *play) tick() error {
	err := p.life.gate.Tick(p.ctx)
	if r := (*refusal.Refusal)(nil); errors.As(err, &r) {
		return nil // a back end or a target that is away
	}
	return err
}

// submit puts one step to the job that is being made, and hands the job in where it
// is the last.
func (p *play) submit(a action, last bool) error {
	if a.actor&more == 0 || len(p.job) == 0 {
		p.job, p.owner = nil, a.by()
	}
	spec := operations.at(a.op)
	t := op.Target{Kind: spec.Kind, Name: p.target(a)}
	if spec.Creates && len(p.job) == 0 && p.bed.targets() == nil {
		t.Name = a.name(func(n string) bool { return p.bed.holder(n) == "" })
	}
	if len(p.job) > 0 && a.target&1 == 0 { // the rest of a job is about what it makes, as often as not
		t.Name = p.job[0].Target.Name
	}
	if spec.Kind == op.KindTrust {
		t = op.Signers
	}
	seen, err := p.o.observe(t.Name)
	if err != nil {
		seen = op.Observed{}
	}
	p.job = append(p.job, op.Ask{Op: spec.Name, Target: t, Params: params(spec, t.Name, a.args, p.bed, seen)})
	if !last {
		return nil
	}
	asks := p.job
	p.job = nil
	before := p.ran.soFar()
	under, err := p.underWay() // by now, and not after Submit: what is under way may end meanwhile, and do nothing
	if err != nil {
		return err
	}
	job, err := p.life.gate.Submit(p.ctx, op.Submission{Requester: p.owner.by, Steps: asks, Reason: "a sequence"})
	if err != nil {
		p.o.say("    refused: %v", err)
		return nil
	}
	for _, s := range job.Steps {
		p.o.say("    %s %s %s %v: %s", s.ID, s.Op, s.Target.Name, s.Params, s.State)
	}
	p.o.waits(job, under, before)
	return nil
}

// decided are the states of a step that is decided and has not ended.
var decided = []op.State{op.StatePlanned, op.StateAuthorized, op.StateDispatched}

// underWay returns the steps of jobs that have a decided one.
func (p *play) underWay() (under []op.Step, err error) {
	for _, state := range decided {
		jobs, err := p.life.gate.Jobs(p.ctx, gate.JobFilter{State: state})
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			under = append(under, j.Steps...)
		}
	}
	return under, nil
}

// waits notes how much had been done before a job whose steps wait for a signature. A decided step on the same target may clear the way for
// one that waits.
func (o *oracle) waits(job op.Job, under []op.Step, before int) {
	for _, s := range job.Steps {
		clears := func(x op.Step) bool { return slices.Contains(decided, x.State) && x.Target == s.Target && x.ID != s.ID }
		_, known := o.asked[s.ID]
		if !known && s.State == op.StatePending && len(job.Requesters) == 1 && !slices.ContainsFunc(slices.Concat(under, job.Steps), clears) {
			o.asked[s.ID] = before
		}
	}
}

// moved notes that a target may look different to whoever signs; "" is all of them.
func (p *play) moved(name string) {
	for id, g := range p.shown {
		if name == "" || g.request.Step.Target.Name == name {
			g.moved = true
			p.shown[id] = g
		}
	}
}

// write has somebody write a mark into a guest.
func (p *play) write(a action) {
	p.o.serial++
	m := mark(fmt.Sprintf("%s-%d", a.by().name, p.o.serial))
	name := p.target(a)
	holder := p.bed.holder(name)
	if holder == "" || !p.bed.write(name, m) {
		return
	}
	p.o.wrote(m, holder, name)
	p.wrote = append(p.wrote, written{name, m})
	p.o.say("    %s into %s, %s", m, name, holder)
}

// own has a writer delete or rename what it wrote last.
func (p *play) own(a action) {
	name := p.target(a)
	for _, w := range slices.Backward(p.wrote) {
		if w.name != name {
			continue
		}
		it := item{p.bed.holder(w.name), "data", w.mark}
		if _, there := p.o.items[it]; !there {
			continue
		}
		if a.kind == renames {
			p.bed.rename(w.name, w.mark)
		} else if p.bed.erase(w.name, w.mark) {
			delete(p.o.items, it)
			p.o.say("    %s deletes %s", w.name, w.mark)
		}
		return
	}
}

// wish has a desired set say something of a guest, or stop to.
func (p *play) wish(a action) error {
	set := sets[a.args[0]%2]
	states := []string{"stopped", "running", "absent", ""}
	entry, name := "", p.target(a)
	if state := states[a.args[1]%4]; state != "" {
		entry = fmt.Sprintf("{name: %s, state: %s", name, state)
		if state != "absent" {
			cmd := append([]string{""}, programs...)
			entry += []string{"", ", memory: 64MiB", ", cpus: 2", ", memory: 1GiB"}[a.args[2]%4]
			entry += []string{"", "", ", labels: {tier: prod}", ", protected: true", ", protected: false"}[a.args[3]%5]
			if c := cmd[a.args[4]%4]; c != "" && p.bed.commands() != nil {
				entry += ", command: " + c
			}
		}
		entry += "}"
	}
	p.o.say("    %s says %q", set, entry)
	p.wishes.mu.Lock()
	p.wishes.of[set][name] = entry
	p.wishes.mu.Unlock()
	p.moved(name)
	return p.round()
}

// decide performs what is about jobs and requests.
func (p *play) decide(a action) error {
	switch a.kind {
	case cancels:
		js, err := p.life.gate.Jobs(p.ctx, gate.JobFilter{Limit: 20})
		if err != nil || len(js) == 0 {
			return err
		}
		j := js[int(a.args[0])%len(js)]
		_, err = p.life.gate.Cancel(p.ctx, a.by().by, j.ID)
		p.o.say("    %s: %v", j.ID, err)
		p.moved("")
		return nil
	case signsLate:
		return p.signLate(a)
	}
	rs, err := p.life.gate.Requests(p.ctx, op.StatePending)
	if err != nil || len(rs) == 0 {
		return err
	}
	r := rs[int(a.args[0])%len(rs)]
	p.o.say("    %s", r.ID)
	switch a.kind {
	case approves:
		err := p.approve(r)
		p.o.say("    approve: %v", err)
		p.moved(r.Step.Target.Name)
	case shows:
		return p.show(r.ID)
	case rejects:
		p.o.say("    reject: %v", p.reject(r))
		p.moved("")
	}
	return nil
}

// approve signs a request as it is given. From then on what its step takes is what
// an operator signed away.
func (p *play) approve(r op.Request) error {
	sig := mint.Sign(p.t, p.alice, op.Operational.Namespace(), r.Payload)
	e := authz.Envelope{Payload: r.Payload, Signatures: []string{sig.Armored()}}
	before, from := p.o.signed[r.ID], p.o.named[r.ID]
	p.o.signed[r.ID] = true // before it may run
	p.o.users[r.ID] = ""
	for _, f := range r.Facts {
		if f.Name == "used by" || f.Name == "depends on it" {
			p.o.users[r.ID] += p.withNames(f.Text) + "\n"
		}
	}
	if names, ok := p.bed.(naming); ok && names.named(r) != "" {
		p.o.named[r.ID] = names.named(r)
	}
	_, err := p.life.gate.Approve(p.ctx, actors[3].by, r.ID, e)
	if p.o.signed[r.ID] = before || err == nil; err != nil {
		p.o.named[r.ID] = from
	}
	return err
}

// withNames adds to a text the names of the guests whose number on Proxmox VE it has.
func (p *play) withNames(text string) string {
	numbered, _ := p.bed.(interface{ VMID(string) int })
	for _, name := range names {
		if numbered != nil && strings.Contains(text, fmt.Sprintf("the guest %d (", numbered.VMID(name))) {
			text += " " + name
		}
	}
	return text
}

func (p *play) reject(r op.Request) error {
	now := p.clock.wall().Truncate(time.Second)
	b, err := op.Rejection{Gate: p.life.gate.ID(), Host: host, Request: r.ID, PayloadSHA256: op.SHA256(r.Payload),
		Nonce: base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%016d", p.did)), IssuedAt: now,
		ExpiresAt: now.Add(time.Hour), Reason: "no"}.Encode()
	if err != nil {
		return err
	}
	sig := mint.Sign(p.t, p.alice, op.Operational.Namespace(), b)
	_, err = p.life.gate.Reject(p.ctx, actors[3].by, r.ID, authz.Envelope{Payload: b, Signatures: []string{sig.Armored()}})
	return err
}

// end asks what is asked once: everything that was promised is kept.
func (p *play) end() error {
	p.life.injector.mu.Lock()
	p.life.injector.plots, p.life.injector.lurks = nil, nil
	p.life.injector.mu.Unlock()
	for _, check := range []func() error{p.tidy, p.signAll, p.undeleteAll, p.o.guards} {
		if err := check(); err != nil {
			return err
		}
		if err := p.rest(); err != nil { // what a check had asked for may be under way
			return err
		}
		if err := p.o.look(); err != nil {
			return err
		}
	}
	return nil
}

// rounds bounds how long a signed request may take to run: so many looks at
// everything, half a minute apart.
const rounds = 20

// signAll signs every request that waits, one after the other: each can be approved,
// and ends within a bounded time.
func (p *play) signAll() error {
	p.o.say("at the end, an operator signs what waits")
	if err := p.trusted(); err != nil {
		return err
	}
	rs, err := p.life.gate.Requests(p.ctx, op.StatePending)
	if err != nil {
		return err
	}
	for _, r := range rs {
		if err := p.signOne(r.ID); err != nil {
			return err
		}
	}
	return nil
}

// trusted sets the wall clock to what the gate believes, as an operator would: right,
// or as it was when the gate first saw it.
func (p *play) trusted() error {
	for back := range len(p.clock.were) + 1 {
		p.clock.set(back)
		for range 45 { // the gate's mark may be ahead of it by a step that was taken back
			if p.life.gate.Moment().Trusted {
				return p.tick()
			}
			if err := p.pass(time.Hour); err != nil {
				return err
			}
		}
	}
	return lossOf("liveness", "the gate believes no clock any more: %s", p.life.gate.Moment().Why)
}

func (p *play) signOne(id op.RequestID) error {
	var err error
	for range 4 {
		var r op.Request
		if r, err = p.life.gate.Request(p.ctx, id); err != nil {
			return err
		}
		if !r.Step.State.Open() || r.Step.State == op.StateDispatched {
			return nil
		}
		if err = p.approve(r); err == nil {
			break
		}
		if e := errors.Join(p.tick(), p.rest()); e != nil {
			return e
		}
	}
	p.o.say("    %s: %v", id, err)
	if err != nil {
		return lossOf("liveness", "%s cannot be approved: %v", id, err)
	}
	for range rounds {
		if err := errors.Join(p.rest(), p.o.look()); err != nil {
			return err
		}
		r, err := p.life.gate.Request(p.ctx, id)
		if err != nil || !r.Step.State.Open() || p.waitsForOthers(r) {
			return err
		}
		if err := errors.Join(p.pass(30*time.Second), p.round()); err != nil {
			return err
		}
	}
	return lossOf("liveness", "%s was approved, and has not run in %d rounds", id, rounds)
}

// waitsForOthers reports whether another step of the job waits for a signature.
func (p *play) waitsForOthers(r op.Request) bool {
	j, err := p.life.gate.Job(p.ctx, r.ID.Job)
	return err == nil && slices.ContainsFunc(j.Steps, func(s op.Step) bool { return s.State == op.StatePending })
}

// undeleteAll brings back, at the end, what the trash is to keep: its owner asks,
// and its bytes are there.
func (p *play) undeleteAll() error {
	type kept struct{ holder, name string }
	seen := map[kept]bool{}
	var all []kept
	for it, w := range p.o.items {
		k := kept{it.holder, w.name}
		if w.trash && !seen[k] && p.clock.truth().Before(w.until.Add(-p.clock.early())) && it.part == "data" {
			seen[k] = true
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return strings.Compare(a.holder, b.holder) })
	for _, k := range all {
		if err := p.undelete(k.holder, k.name); err != nil {
			return err
		}
	}
	return nil
}

// undelete asks for one life of a name back, and looks whether it is.
func (p *play) undelete(holder, name string) error {
	p.o.say("at the end, %s of %s is undeleted", holder, name)
	ask, err := p.undeleteAsk(holder, name)
	if err != nil {
		return err
	}
	j, err := p.life.gate.Submit(p.ctx, op.Submission{Requester: actors[3].by, Steps: []op.Ask{ask}, Reason: "bring it back"})
	if err != nil {
		return lossOf("undelete", "%s of %s is in the trash, and its owner cannot undelete it: %v", holder, name, err)
	}
	if j.Steps[0].State == op.StatePending {
		if err := p.signOne(j.Steps[0].ID); err != nil {
			return err
		}
	}
	for range rounds {
		if err := errors.Join(p.rest(), p.o.look()); err != nil {
			return err
		}
		if p.live(holder) {
			return nil
		}
		if err := p.pass(30 * time.Second); err != nil {
			return err
		}
	}
	j, err = p.life.gate.Job(p.ctx, j.ID)
	return errors.Join(err, lossOf("undelete", "%s of %s was undeleted (%s: %s), and its bytes are not there", holder, name,
		j.Steps[0].State, j.Steps[0].Detail))
}

func (p *play) live(holder string) bool {
	for it, w := range p.o.items {
		if it.holder == holder && !w.trash {
			return true
		}
	}
	return false
}

// undeleteAsk asks for one incarnation, under a name that nothing else is about.
func (p *play) undeleteAsk(holder, name string) (op.Ask, error) {
	seen, err := p.o.observe(name)
	if err != nil {
		return op.Ask{}, err
	}
	ask := op.Ask{Op: "guest.undelete", Target: op.Target{Kind: "guest", Name: name}, Params: op.Params{}}
	for _, t := range seen.Trash {
		if strings.Contains(string(t.Incarnation), holder) {
			ask.Params["incarnation"] = string(t.Incarnation)
		}
	}
	// Its own name may be in use, or about to be.
	p.backs++
	ask.Target.Name, ask.Params["from"] = "back-"+strconv.Itoa(p.backs), name
	return ask, nil
}

func owner(info os.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Uid
	}
	return 0
}

// playOut plays a sequence on a new machine and returns how it went.
func playOut(ctx context.Context, m *machine, seq []action) (*play, error) {
	p := &play{machine: m, o: newOracle(m), shown: map[op.RequestID]glance{}, saw: map[op.RequestID][]byte{}, read: map[string]times{}}
	err := p.run(seq)
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	problems, e := m.finish()
	if err == nil {
		err = e
	}
	if err == nil && len(problems) > 0 {
		err = lossOf("records", "fsck: %v", problems)
	}
	return p, err
}
