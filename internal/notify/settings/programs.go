package settings

import (
	"errors"
	"os"
	"os/exec"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// CheckPrograms checks each program of an exec sink: BadParams if this user cannot run it now, NotAllowed if others can
// write it.
func (s Settings) CheckPrograms() error {
	for _, one := range s.Sinks {
		if one.Exec == nil {
			continue
		}
		path := one.Exec.Argv[0]
		if err := ownfile.Own().CheckProgram(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if _, err := exec.LookPath(path); err != nil {
			return refusal.New(refusal.BadParams, "sink %s: %s cannot be run: %v", one.Name, op.Shown(path), errors.Unwrap(err)).
				WithHint("the user of gated notify runs it: make it a program of that user or of root, with chmod +x")
		}
	}
	return nil
}
