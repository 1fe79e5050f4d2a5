package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// shells are programs that run one command and end when they were told so.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true, "fish": true}

// runsOneCommand reports whether a process is a shell that was started for one
// command, as sh -c is, and by what it was called. It is about what the process
// says of itself, and so good for a warning alone.
func runsOneCommand(pid int) (string, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return "", false
	}
	var args []string
	for _, arg := range bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return filepath.Base(args[0]), forOneCommand(args)
}

// forOneCommand reports whether a command line is a shell's with -c.
func forOneCommand(args []string) bool {
	if !shells[strings.TrimPrefix(filepath.Base(args[0]), "-")] {
		return false
	}
	for i := 1; i < len(args); i++ {
		option := args[i]
		switch {
		case option == "--" || len(option) < 2 || option[0] != '-' && option[0] != '+':
			return false // a script, or what it reads
		case strings.HasPrefix(option, "--"):
			continue
		case option[0] == '-' && strings.ContainsRune(option, 'c'):
			return true
		case strings.HasSuffix(option, "o") || strings.HasSuffix(option, "O"):
			i++ // its value
		}
	}
	return false
}
