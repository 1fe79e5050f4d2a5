package libvirt

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
		"virsh undefine web1": {"guest.destroy", "web1"}, "/usr/bin/virsh -c qemu:///system undefine web1 --nvram": {"guest.destroy", "web1"},
		"virsh undefine --domain web1 --nvram": {"guest.destroy", "web1"}, "virsh undefine --storage vda web1": {"guest.destroy", ""},
		"virsh undefine --nvram web1 --storage vda": {"guest.destroy", "web1"}, "virsh undefine --nvram --domain web1 --storage vda": {"guest.destroy", ""},
		"virsh -c qemu+ssh://other/system undefine web1": {"guest.destroy", ""}, "virsh --connect=qemu+tcp://other/system destroy web1": {"guest.stop", ""},
		"virsh undefine --domain=web1":          {"guest.destroy", ""},
		"virsh undefine web1 --storage vda,vdb": {"guest.destroy", "web1"}, "virsh destroy web1 --graceful": {"guest.stop", "web1"},
		"virsh -q destroy --graceful web1": {"guest.stop", "web1"}, "virsh list --all": {}, "virsh help undefine": {}, "virsh start web1": {},
	} {
		operation, name := operationFor(command)
		require.Equal(t, want, [2]string{operation, name}, command)
	}
}
