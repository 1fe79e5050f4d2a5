package cli

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether an operator may be asked on it: it is a file, and the
// file a terminal. Other character devices, such as /dev/null, are none.
func IsTerminal(in any) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
