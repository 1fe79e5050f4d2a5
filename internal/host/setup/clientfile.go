package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
)

// packagedFile is contrib/systemd/client.yaml, which the packages install, for a socket. The same bytes are written
// where there is no file, so that a package which comes later finds its own and asks nothing (dpkg(1), conffiles).
const packagedFile = `# Where the clients of all users of this host find its gate: gated and opsign read this
# file. A gate of a user's own comes before it. Root alone may be able to change it:
# gated docs formats/client-yaml
socket: %s
# Under gated.socket root listens, and clients believe root. Where the daemon itself makes
# its socket, this file also names its user, as "id -u gated" prints it, with the key uid.
`

// clientFile tells every user's clients where the gate is. A file that an administrator changed stays as it is.
func (s System) clientFile() Step {
	packaged := fmt.Sprintf(packagedFile, s.Socket)
	text, err := os.ReadFile(s.ClientFile)
	lacksUser := !s.Booted && err == nil && string(text) == packaged
	step := Step{What: "clients of all users find the gate, by " + op.Shown(s.ClientFile), Undo: op.ShellWords("rm", s.ClientFile),
		Done: exists(s.ClientFile) && !lacksUser,
		do: func(context.Context) error {
			text := packaged
			if !s.Booted { // the daemon itself listens, and not root
				uid, _, err := lookUp(s.User)
				if err != nil {
					return err
				}
				text += fmt.Sprintf("uid: %d\n", uid)
			}
			if err := os.MkdirAll(filepath.Dir(s.ClientFile), 0o755); err != nil {
				return err
			}
			return ownfile.ReplaceAs(s.ClientFile, []byte(text), func(f *os.File) error { return f.Chmod(0o644) })
		}}
	if lacksUser {
		step.Undo = op.ShellWords("sed", "-i", "/^uid:/d", s.ClientFile)
	}
	return step
}
