package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/host/systemd"
	"gated/internal/log/journal"
)

// reloadCall is a caller that waits for the result of a reload.
type reloadCall struct {
	done chan<- reloadResult // has room for the result
}

type reloadResult struct {
	api.Reloaded
	err error
}

// Reload reads the settings again, as SIGHUP does, and waits for the result. Its refusal is why what was in force
// stays.
func (d *daemon) Reload(ctx context.Context) (api.Reloaded, error) {
	done := make(chan reloadResult, 1)
	select {
	case d.reloadSoon <- reloadCall{done}:
	case <-ctx.Done():
		return api.Reloaded{}, ctx.Err()
	}
	select {
	case r := <-done:
		return r.Reloaded, r.err
	case <-ctx.Done():
		return api.Reloaded{}, ctx.Err()
	}
}

// reloads reads the settings again for each signal and each call, and the revocation
// file whenever it changed, until ctx ends.
func (d *daemon) reloads(ctx context.Context, hup <-chan os.Signal) {
	look := time.NewTicker(signers.RevokedInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if ctx.Err() == nil {
				_, _ = d.reload(ctx) // status and the log have its refusal
			}
		case call := <-d.reloadSoon:
			r, err := d.reload(ctx)
			call.done <- reloadResult{r, err}
		case <-look.C:
			if d.revoked.Due() && ctx.Err() == nil {
				d.takeRevoked(ctx)
			}
		}
	}
}

// reload reads gated.yaml and the revocation file again. Both are taken over
// together, or neither: what is broken is said in the log and in status, and
// what was in force stays. A revocation file that cannot be read is taken over
// as one that refuses every signature. Settings that are fixed at start wait for
// the next one; reload says which changed. The signers change by rotation alone:
// an edit of their file is kept aside.
func (d *daemon) reload(ctx context.Context) (api.Reloaded, error) {
	if begins, err := systemd.Reloading(); err == nil {
		d.tell(begins)
		defer d.tell(systemd.Ready)
	}
	policy, revoked := d.gate.Policy().Digest(), *d.revokedSays.Load()
	c, err := d.readSettings()
	d.checkSigners(ctx)
	if err == nil {
		err = d.take(ctx, c)
	}
	if err != nil {
		if ctx.Err() != nil { // it stops
			return api.Reloaded{}, ctx.Err()
		}
		r := refusal.As(err)
		d.reloadErr.Store(r)
		d.log.Error("reload refused; what was in force stays", "code", string(r.Code), "detail", r.Detail)
		return api.Reloaded{}, err
	}
	d.reloadErr.Store(nil)
	waits := fixedNames(d.config, c)
	d.waits.Store(&waits)
	d.log.Info("reloaded policy and revoked keys", "at_next_start", waits)
	d.tickSoon()
	r := api.Reloaded{Changed: []string{}, Waits: []string{}, Policy: d.gate.Policy().Digest(), Revoked: *d.revokedSays.Load()}
	if waits != "" {
		r.Waits = strings.Split(waits, ", ")
	}
	if r.Policy != policy {
		r.Changed = append(r.Changed, "policy")
	}
	if r.Revoked != revoked {
		r.Changed = append(r.Changed, "revoked keys")
	}
	return r, nil
}

// readSettings reads gated.yaml, and refuses it as a start would.
func (d *daemon) readSettings() (config.Config, error) {
	c, err := life.Settings(d.opened.Dir.Path())
	if err == nil && c.Host != d.config.Host {
		err = refusal.New(refusal.TargetMismatch, "the host's name cannot change from %q to %q", d.config.Host, c.Host)
	}
	if err == nil {
		err = life.CheckDeciding(c)
	}
	if err == nil {
		err = life.CheckUnit(d.unit)
	}
	return c, err
}

// take replaces the policy and the revoked keys by those that a configuration
// names.
func (d *daemon) take(ctx context.Context, c config.Config) error {
	p := c.Policy
	p.Commands, p.Benign = d.config.Policy.Commands, d.config.Policy.Benign // the drivers know these
	p.CommandGuests = d.config.Policy.CommandGuests
	r := d.revoked
	if path, required := life.RevocationPath(c, d.opened.Dir.Path()); !r.Is(path, required) {
		r = r.At(path, required)
	}
	list, _ := r.Read()
	if err := d.gate.Reload(ctx, list, p); err != nil {
		r.Again()
		return err
	}
	d.revoked = r
	d.sayRevoked(list)
	return nil
}

// takeRevoked takes the revocation file over with the policy in force, if it says
// anything else than before. If that fails, the file is due again.
func (d *daemon) takeRevoked(ctx context.Context) {
	list, differs := d.revoked.Read()
	if !differs {
		return
	}
	if err := d.gate.Reload(ctx, list, d.gate.Policy()); err != nil {
		if ctx.Err() == nil {
			d.log.Error("the revoked keys cannot be taken over", "error", err)
		}
		d.revoked.Again()
		return
	}
	d.sayRevoked(list)
	d.tickSoon()
}

// sayRevoked logs what is in force of a list that was just read, and keeps it for
// status.
func (d *daemon) sayRevoked(list *authz.Revoked) {
	says := d.revoked.Says(list)
	d.revokedSays.Store(&says)
	if list.Blocked() != nil {
		d.log.Error("every signature is refused", "why", says)
		return
	}
	d.log.Info("revoked keys are in force", "what", says)
}

// fixedNames names what differs between two configurations and is not reloaded,
// "" for nothing.
func fixedNames(a, b config.Config) string {
	var out []string
	for _, s := range []struct {
		name string
		a, b any
	}{
		{"single_user", a.SingleUser, b.SingleUser},
		{"socket", a.Socket, b.Socket},
		{"socket_group", a.SocketGroup, b.SocketGroup},
		{"submitters", []any{a.AnySubmitter, a.Submitters, a.Elsewhere.Submitters}, []any{b.AnySubmitter, b.Submitters, b.Elsewhere.Submitters}},
		{"admins", []any{a.Admins, a.Elsewhere.Admins}, []any{b.Admins, b.Elsewhere.Admins}},
		{"local", []any{a.HasLocal, a.Local}, []any{b.HasLocal, b.Local}},
		{"libvirt", a.Libvirt, b.Libvirt},
		{"proxmox", a.Proxmox, b.Proxmox},
		{"new_guests", a.NewGuests, b.NewGuests},
		{"commands", a.Commands, b.Commands},
		{"desired", a.Desired, b.Desired},
		{"hub", a.Hub, b.Hub},
		{"store", a.Store, b.Store},
		{"reservations", a.Unseen, b.Unseen},
		{"limits", []any{a.Workers, a.Limits}, []any{b.Workers, b.Limits}},
		{"canary", a.Canary, b.Canary},
		{"log", a.Log, b.Log},
		{"monitor", a.Monitor, b.Monitor},
	} {
		if !reflect.DeepEqual(s.a, s.b) {
			out = append(out, s.name)
		}
	}
	return strings.Join(out, ", ")
}

// recordFirst records the list of signers that the file says, because the
// database is from before lists had versions.
func (d *daemon) recordFirst(ctx context.Context) error {
	d.list.Version.At = d.gate.Moment().Now
	d.log.Info("the list of signers is taken over as it is", "file", d.signers.Path(), "epoch", d.list.Version.Epoch)
	return d.opened.Store.Update(ctx, func(tx *store.Tx) error {
		return d.list.Record(tx, signers.StateOwner, d.gate.ID(), signers.Compare(nil, d.list.Trust))
	})
}

// showSigners makes the file of signers say what is in force. It decides nothing
// from the file; an edit is kept aside, and the audit log says so.
func (d *daemon) showSigners(ctx context.Context) error {
	wrote, err := d.signers.Show(ctx, d.opened.Store, signers.Showing{
		InForce: func(v journal.TrustVersion) error {
			return signers.Agrees(d.opened.Store, v, d.gate.Epoch(), d.gate.Trust().Digest())
		},
		Edited: func(v journal.TrustVersion) error {
			if d.member.standsBy() {
				return refusal.New(refusal.Standby, "%s was edited by hand, which decides nothing; it is kept aside when this member takes over", d.signers.Path())
			}
			kept, _ := d.signers.Edited()
			d.log.Warn("the file of signers was edited by hand; the edit decides nothing", "file", d.signers.Path(), "kept", kept)
			return d.gate.Log(ctx, signers.EditedEntry(v))
		},
	})
	if wrote && err == nil {
		d.log.Info("the list of signers was written", "file", d.signers.Path())
	}
	return err
}

// checkSigners is showSigners while the daemon runs: status says what keeps the
// file from saying what is in force.
func (d *daemon) checkSigners(ctx context.Context) {
	err := d.showSigners(ctx)
	if err != nil && ctx.Err() != nil {
		return // it stops
	}
	if err == nil {
		d.signersErr.Store(nil)
		return
	}
	r := refusal.As(err)
	if before := d.signersErr.Swap(r); before == nil || before.Detail != r.Detail {
		d.log.Error("the list of signers is not as the gate has it; what is in force stays", "error", err)
	}
}

// openRevocations finds the revocation file. If the log says that keys were
// revoked, a file that is not there is no pardon: it is lost, or being saved. The
// log may be long, so it is asked only if the file is not there.
func (d *daemon) openRevocations(ctx context.Context) (err error) {
	path, required := life.RevocationPath(d.config, d.opened.Dir.Path())
	needed := true // if the file goes away before it is read
	if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		err = d.opened.Store.View(ctx, func(tx *store.Tx) (err error) {
			needed, err = signers.RevokedBefore(tx)
			return err
		})
	}
	if err != nil {
		return err
	}
	d.revoked = signers.NewRevocations(path, required, needed, now)
	return d.revokedInOrder(ctx)
}

// signersHealth says whether the file of signers is what is in force, whether
// somebody could sign as operational, and who need not touch anything for that
// or for a recovery.
func (d *daemon) signersHealth() api.Health {
	if r := d.signersErr.Load(); r != nil {
		return api.Health{Name: "signers", Detail: r.Detail + "; what was in force stays"}
	}
	if kept, edited := d.signers.Edited(); edited {
		return api.Health{Name: "signers", Detail: fmt.Sprintf("%s was edited by hand, which decides nothing: the edit is kept as %s. "+
			"Take it over with gated trust adopt %s, or remove it", d.signers.Path(), kept, kept)}
	}
	trust := d.gate.Trust()
	h := api.Health{Name: "signers", OK: true, Detail: fmt.Sprintf("epoch %d", d.gate.Epoch())}
	if trust.Blocked() == nil && len(trust.Could(op.Operational, op.TouchNone, d.gate.Moment().Now)) == 0 {
		h.OK = false
		h.Detail += "; nobody could sign as operational: no key for it is listed, valid now and not revoked, so what is destructive " +
			"waits until the recovery key signs a gated trust rotate, or root lists one: gated trust adopt FILE"
	}
	if who := signers.SoftwareSigners(trust.Signers()); len(who) > 0 {
		h.Detail += "; destructive steps and rotations are signed with software keys by " + strings.Join(who, ", ") +
			": any process of theirs could sign. A security key needs a touch: ssh-keygen -t ed25519-sk, then gated trust rotate"
	}
	return h
}

// revokedHealth says whether the revocation file could be read.
func (d *daemon) revokedHealth() api.Health {
	return api.Health{Name: "revoked keys", OK: d.gate.Trust().Blocked() == nil, Detail: *d.revokedSays.Load()}
}

// unmeetable lists the rules that ask for more people than there are.
func (d *daemon) unmeetable() []api.Health {
	at, trust := d.gate.Moment().Now, d.gate.Trust()
	if trust.Blocked() != nil {
		return nil // nobody could sign anything, which is said already
	}
	var out []api.Health
	for _, text := range d.gate.Policy().Unmeetable(func(r op.Role, touch op.Touch) []string { return trust.Could(r, touch, at) }) {
		out = append(out, api.Health{Name: "rule", Detail: text + ". A gated trust rotate lists more people. Unless a rule says more, " +
			"the recovery key signs it alone. Without one, lower the rule, gated reload, ask for the rotation again, and raise the rule"})
	}
	return out[:min(len(out), maxTroubles)]
}
