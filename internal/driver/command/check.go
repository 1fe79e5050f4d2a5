package command

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Check looks if each entry could run. It runs nothing.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	out := []driver.Finding{}
	if d.cfg.SingleUser {
		out = append(out, driver.Finding{What: "isolation", State: driver.Note,
			Detail: "single_user is true: commands may run as gated's own user, and could change the gate itself",
			Hint:   "run gated as root with single_user: false, and name a user for each command"})
	}
	if len(d.cfg.Entries) == 0 {
		out = append(out, driver.Finding{What: "commands", State: driver.Note, Detail: "the catalogue is empty"})
	}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Entries)) {
		out = append(out, d.checkEntry(ctx, name))
	}
	return out
}

func (d *Driver) checkEntry(ctx context.Context, name string) driver.Finding {
	t := op.Target{Kind: op.KindCommand, Name: name}
	f := driver.Finding{What: t.String(), State: driver.OK}
	seen, err := d.look(ctx, op.At(t), nil)
	if err != nil {
		f.State, f.Detail, f.Hint = driver.Bad, detail(err), refusal.As(err).Hint
		return f
	}
	defer seen.close()
	f.Detail = fmt.Sprintf("%s as %s, sha256:%s", seen.program.path, seen.as.Name, seen.program.digest)
	switch {
	case seen.as.Own:
		f.State, f.Hint = driver.Note, "it runs as gated's own user; name another"
	case seen.probe == nil && !seen.entry.Benign:
		f.State, f.Hint = driver.Note, "it has no probe: an operator who approves it does not see what it would take"
	}
	return f
}
