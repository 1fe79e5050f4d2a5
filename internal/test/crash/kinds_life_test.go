package crash

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/people/sign"
	"gated/internal/test/must"
)

func trustKinds() []kind {
	return []kind{{name: op.Rotate, do: rotate, check: rotated}, {name: op.Drill, prepare: noDrill, do: drill, check: ended},
		{name: op.Review, prepare: broken, do: review, check: reviewed}}
}

// broken leaves an incident behind that has ended: break-glass approved a destroy, and an operator stopped it.
func broken(ctx context.Context, b *bench, c *cell) error {
	if err := waits(ctx, b, c); err != nil {
		return err
	}
	payload, err := b.client().Payload(ctx, c.job+".1")
	if err != nil {
		return err
	}
	key, err := sign.KeyFile(b.m().emergency(), nil)
	if err != nil {
		return err
	}
	armor, err := key.Sign(ctx, op.BreakGlass, payload)
	if err != nil {
		return err
	}
	if _, err = b.client().Approve(ctx, c.job+".1", api.EnvelopeOf(payload, armor)); err != nil {
		return err
	}
	c.told["incident"] = c.job + ".1"
	err = reject(ctx, b, c)
	c.job, c.done = "", false
	return err
}

// review closes all incidents.
func review(ctx context.Context, b *bench, c *cell) error {
	return b.ask(ctx, c, true, api.Ask{Op: op.Review, Target: op.Incidents.String(), Params: op.Params{}})
}

// reviewed says that an incident is not open or closed as the end of its review says.
func reviewed(ctx context.Context, b *bench, c *cell) []string {
	wrong := ended(ctx, b, c)
	s, err := b.client().Status(ctx)
	if err != nil {
		return append(wrong, err.Error())
	}
	open := slices.ContainsFunc(s.Incidents, func(in api.Incident) bool { return in.Request == c.told["incident"] })
	if closed := b.state(ctx, c) == op.StateSucceeded; open == closed {
		wrong = append(wrong, fmt.Sprintf("the review is %q, and the incident %s is open: %v", b.state(ctx, c), c.told["incident"], open))
	}
	return wrong
}

// noDrill withdraws the drill that a cell before left open, because one is the most.
func noDrill(ctx context.Context, b *bench, _ *cell) error {
	status, err := b.client().Status(ctx)
	if err != nil || status.Drills.Open == nil {
		return err
	}
	job, _, _ := strings.Cut(status.Drills.Open.Request, ".")
	_, err = b.client().Cancel(ctx, job)
	return err
}

// drill asks for a drill of an end, and signs it.
func drill(ctx context.Context, b *bench, c *cell) error {
	return b.ask(ctx, c, true, api.Ask{Op: op.Drill, Target: op.Drilled.String(), Params: op.Params{"as": "guest.destroy", "target": "guest/" + c.name}})
}

// rotate takes a spare signer out.
func rotate(ctx context.Context, b *bench, c *cell) error {
	status, err := b.client().Status(ctx)
	if err = b.answered(err); err != nil {
		return err
	}
	c.told["key"], c.told["epoch"] = b.spare[0], fmt.Sprint(status.Epoch+1)
	return b.ask(ctx, c, true, api.Ask{Op: op.Rotate, Target: op.Signers.String(), Params: op.Params{"epoch": status.Epoch + 1, "remove": []any{c.told["key"]}}})
}

// rotated says that the list of signers is not what the rotation's end says.
func rotated(ctx context.Context, b *bench, c *cell) []string {
	newest, wrong := b.listed(ctx, c)
	wrong = append(wrong, ended(ctx, b, c)...)
	gone := fmt.Sprint(newest.Epoch) == c.told["epoch"]
	if gone {
		b.spare = b.spare[1:]
	}
	if !gone && b.state(ctx, c) == op.StateSucceeded {
		wrong = append(wrong, "a rotation succeeded, and the list is as before")
	}
	return wrong
}

// listed returns the list of signers in force, and says that the key which a
// rotation took out is in it again, or that the file says another one.
func (b *bench) listed(ctx context.Context, c *cell) (newest life.TrustVersion, wrong []string) {
	all := must.Get(life.TrustHistory(ctx, b.m().state))(b.m().t)
	newest = all[len(all)-1]
	for _, l := range newest.Listed {
		if fmt.Sprint(newest.Epoch) == c.told["epoch"] && l.Key == c.told["key"] {
			wrong = append(wrong, "there is a new list, and the key is in it")
		}
	}
	if !bytes.Equal(read(b.signers()), newest.Text) {
		wrong = append(wrong, "the file of signers does not say what is in force")
	}
	return newest, wrong
}

func lifeKinds() []kind {
	return []kind{
		{name: "start after a destroy that was cut off", launches: true, prepare: cutOff(running, "guest.destroy", "trash.moved"), do: launch},
		{name: "start after a wipe that was cut off", launches: true, prepare: cutOff(running, "guest.wipe", "data.exchanged"), do: launch,
			check: nil},
		{name: "start after a start that was cut off", launches: true, prepare: cutOff(stopped, "guest.start", "start.recorded"), do: launch},
		{name: "sweep", launches: true, prepare: due, do: sweep, check: swept},
		{name: "backup", prepare: running, do: backUp, check: backedUp},
		{name: "restore", launches: true, prepare: toRestore, do: restore, recover: restored, check: unspent},
	}
}

// cutOff leaves a step behind that was cut off at a point.
func cutOff(prepare func(context.Context, *bench, *cell) error, name, point string) func(context.Context, *bench, *cell) error {
	return func(ctx context.Context, b *bench, c *cell) error {
		if err := prepare(ctx, b, c); err != nil {
			return err
		}
		if name == "guest.wipe" {
			delete(b.checked.ledger.files, c.inc)
		}
		// The program has read no order yet in this life.
		cut, err := b.perform(kind{do: step(name, nil)}, c, point)
		if !cut {
			return fmt.Errorf("%s did not come to %s: %w", name, point, err)
		}
		return nil
	}
}

// launch starts the daemon.
func launch(_ context.Context, b *bench, _ *cell) error { return b.m().begin() }

// due leaves a destroyed guest behind that was in the trash for longer than it is
// kept.
func due(ctx context.Context, b *bench, c *cell) error {
	if err := destroyed(ctx, b, c); err != nil {
		return err
	}
	b.m().finish()
	record := b.trashOf(c) + ".json"
	text := string(read(record))
	at := strings.Index(text, `"until":"`)
	if at < 0 {
		return errors.New("the record has no end: " + text)
	}
	old := text[:at] + `"until":"20` + "01" + text[at+len(`"until":"2026`):]
	return os.WriteFile(record, []byte(old), 0o600)
}

func (b *bench) trashOf(c *cell) string {
	return filepath.Join(b.m().root, ".trash", c.name+"~"+strings.ReplaceAll(string(c.inc), ":", "~"))
}

// sweep starts the daemon and waits until the trash is swept.
func sweep(ctx context.Context, b *bench, c *cell) error {
	if err := b.m().begin(); err != nil {
		return err
	}
	for {
		left, err := filepath.Glob(filepath.Join(b.m().root, ".trash", "*"+c.name+"~*"))
		if err != nil || len(left) == 0 {
			return err
		}
		if _, err := b.client().Status(ctx); b.answered(err) != nil {
			return errCut
		}
	}
}

// swept says what the next start leaves of what was due.
func swept(ctx context.Context, b *bench, c *cell) []string {
	for {
		left, err := filepath.Glob(filepath.Join(b.m().root, ".trash", "*"+c.name+"~*"))
		if err == nil && len(left) == 0 {
			return nil
		}
		if _, err := b.client().Status(ctx); err != nil {
			return []string{fmt.Sprintf("%v is still there: %v", left, err)}
		}
	}
}

func backUp(ctx context.Context, b *bench, c *cell) error {
	f, err := os.Create(filepath.Join(b.m().dir, "backup"))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = b.client().Backup(ctx, f)
	err = b.answered(err)
	c.done = err == nil
	return err
}

// backedUp says what is wrong with a backup that was told to be whole.
func backedUp(ctx context.Context, b *bench, c *cell) []string {
	file := filepath.Join(b.m().dir, "backup")
	if !c.done {
		return nil
	}
	return intact(ctx, file)
}

// intact says what is wrong with a database.
func intact(ctx context.Context, file string) []string {
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		return []string{err.Error()}
	}
	defer db.Close()
	var answer string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&answer); err != nil || answer != "ok" {
		return []string{fmt.Sprintf("the backup is damaged: %s %v", answer, err)}
	}
	return nil
}

// toRestore makes a backup in which a destroy waits for a signature, has it signed
// and done, and stops the daemon.
func toRestore(ctx context.Context, b *bench, c *cell) error {
	if err := waits(ctx, b, c); err != nil {
		return err
	}
	if err := backUp(ctx, b, c); err != nil {
		return err
	}
	if err := b.approve(ctx, c.job+".1"); err != nil {
		return err
	}
	if _, err := b.settled(ctx, c.job); err != nil {
		return err
	}
	status, err := b.client().Status(ctx)
	if err != nil {
		return err
	}
	c.told["gate"] = string(status.Gate)
	job, done := c.job, c.done
	if err := rotate(ctx, b, c); err != nil {
		return err
	}
	b.spare, c.job, c.done = b.spare[1:], job, done
	b.m().finish()
	// And somebody has edited the file of signers.
	f, err := os.OpenFile(b.signers(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(handEdit)
	return errors.Join(err, f.Close())
}

const handEdit = "# by hand\n"

func (b *bench) signers() string { return filepath.Join(b.m().state, "allowed_signers") }

func restore(ctx context.Context, b *bench, _ *cell) error {
	return b.command(ctx, "restore", filepath.Join(b.m().dir, "backup"))
}

// command runs the program on the state directory.
func (b *bench) command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, b.m().program, append(args, "--state", b.m().state)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, b.m().env...)
	out, err := cmd.CombinedOutput()
	switch {
	case killed(err):
		return errCut
	case err != nil:
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// restored starts the daemon, on the old database or on the new one. Where it
// does not start, the restore is done again, as it says.
func restored(ctx context.Context, b *bench, c *cell) error {
	if strings.HasSuffix(string(read(b.signers())), handEdit) { // which is moved away, as every start says
		if err := os.Remove(b.signers()); err != nil {
			return err
		}
	}
	report, err := life.Fsck(ctx, b.m().state)
	sound := err == nil && len(report.Problems) == 0
	if err := b.m().begin(); err == nil {
		require.True(b.m().t, sound, "a daemon starts on what fsck finds fault with: %v", report.Problems)
	} else {
		require.False(b.m().t, sound, "no daemon starts on what fsck calls sound: %s", b.m().log.String())
		if err := restore(ctx, b, c); err != nil {
			return err
		}
		if err := b.m().begin(); err != nil {
			return err
		}
	}
	status, err := b.client().Status(ctx)
	if err != nil || string(status.Gate) == c.told["gate"] {
		return err // it is the old one: everything must be as it was
	}
	// Of what came after the backup it knows nothing. What was signed stays spent.
	b.past = append(b.past, b.checked.ledger.approvals...)
	b.another()
	return nil
}

// another says that the database is another one by now.
func (b *bench) another() {
	b.checked.log, b.checked.wrongs = newReplay(), nil
	l := b.checked.ledger
	clear(l.jobs)
	clear(l.over)
	clear(l.files)
	clear(l.sets)
	l.approvals = nil
}

// unspent says which approvals that counted before a restore count after it, or
// that a signer who was taken out since the backup is back.
func unspent(ctx context.Context, b *bench, c *cell) []string {
	newest, wrong := b.listed(ctx, c)
	if fmt.Sprint(newest.Epoch) != c.told["epoch"] {
		wrong = append(wrong, fmt.Sprintf("the list of signers is of epoch %d, and was of %s", newest.Epoch, c.told["epoch"]))
	}
	return append(wrong, b.refused(ctx)...)
}

// refused says which approvals of another gate id count.
func (b *bench) refused(ctx context.Context) (wrong []string) {
	for _, s := range b.past {
		_, one := b.client().Approve(ctx, s.request, s.envelope)
		_, other := b.client().SubmitSigned(ctx, s.envelope)
		for _, err := range []error{one, other} {
			if _, refused := errors.AsType[*refusal.Refusal](err); !refused {
				wrong = append(wrong, fmt.Sprintf("an approval of %s, for another gate id, got %v", s.request, err))
			}
		}
	}
	return wrong
}
