package ownfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// headLength is how many bytes of a program the kernel reads to find its interpreter
	// (BINPRM_BUF_SIZE). The interpreter of a script may be a script itself. maxInterpreters is how
	// many such scripts the kernel follows (execve(2)).
	headLength      = 256
	maxInterpreters = 5
)

// CheckProgram is Check for a program and, if it is a script, also for its interpreter. If the
// program may not be read, only the program itself is checked.
func (s StrictModes) CheckProgram(path string) error {
	for range maxInterpreters {
		head, err := s.head(path)
		if err != nil {
			return err
		}
		next, ok := parseInterpreter(head)
		if !ok {
			return nil
		}
		if !strings.HasPrefix(next, "/") {
			return refusal.New(refusal.NotAllowed, "%s is run by %s, which is looked for in the directory that it runs in",
				op.Shown(path), op.Shown(next)).
				WithHint("begin its first line with #! and an absolute path")
		}
		path = next
	}
	return refusal.New(refusal.NotAllowed, "%s is run by a script that is run by others", op.Shown(path)).
		WithHint("name the interpreter itself")
}

// head returns the beginning of a program, or nothing if it may not be read.
func (s StrictModes) head(path string) ([]byte, error) {
	f, err := s.Open(path)
	if errors.Is(err, os.ErrPermission) {
		return nil, s.Check(path)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, headLength)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

// parseInterpreter returns the path after #! as execve(2) reads it.
func parseInterpreter(head []byte) (path string, ok bool) {
	rest, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", false
	}
	rest = bytes.TrimLeft(rest, " \t")
	if end := bytes.IndexAny(rest, " \t\n\x00"); end >= 0 {
		rest = rest[:end]
	}
	return string(rest), len(rest) > 0
}
