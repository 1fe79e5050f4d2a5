package proxmox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/steer"
)

// operationFor returns the operation in the place of a command, and the name that the command says.
func operationFor(command string) (operation, name string) {
	c := steer.Command{}
	for _, w := range strings.Fields(command) {
		c.Words = append(c.Words, steer.Word(w))
	}
	for _, r := range (*Driver)(nil).Steering() {
		if m, ok := r.Match(c, strings.Clone); ok {
			return r.Op, string(m.Bound[r.Name])
		}
	}
	return "", ""
}

func TestCommandsWithAnOperation(t *testing.T) {
	for command, want := range map[string][2]string{
		"qm destroy 104": {"guest.destroy", ""}, "/usr/sbin/qm destroy 104 --purge": {"guest.destroy", ""}, "qm destroy --purge 1 104": {"guest.destroy", ""},
		"pct destroy 105": {"guest.destroy", ""}, "pct destroy --force 1 105": {"guest.destroy", ""}, "qm list": {}, "qm help destroy": {}, "pct stop 105": {},
	} {
		operation, name := operationFor(command)
		require.Equal(t, want, [2]string{operation, name}, command)
	}
}
