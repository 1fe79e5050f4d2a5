//go:build !linux

package story

import (
	"errors"
	"os"
)

// NewTerminal fails: a story needs the daemon, which is for Linux alone. opsign's other tests compile without it.
func NewTerminal() (person, program *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}
