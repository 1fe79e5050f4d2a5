//go:build crashpoints

package crashpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// variable says where to end: "NAME" or "NAME:N" for the N-th time from 1. "trace
// FILE" ends nowhere and appends the name of each point that is passed to FILE.
// "@FILE" does what FILE says once there is such a file; nothing counts before.
const variable = "GATED_CRASH_AT"

var (
	mu     sync.Mutex
	armed  *order
	passed int
)

// order is what the variable asks for.
type order struct {
	name  string // of the point, or ""
	n     int
	trace string // the file to append to, or ""
}

// Built reports whether this program has crash points.
const Built = true

// Here ends the process with SIGKILL if this is the moment, and does not return
// then.
func Here(p Point) {
	mu.Lock()
	defer mu.Unlock()
	if armed == nil && !arm() {
		return
	}
	switch name := table[p].Name; {
	case armed.trace != "":
		note(armed.trace, name)
	case armed.name == name:
		if passed++; passed == armed.n {
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// arm reads the order, and reports whether there is one yet.
func arm() bool {
	text := os.Getenv(variable)
	if file, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		text = strings.TrimSpace(string(b))
	}
	if text == "" {
		armed = &order{}
		return true
	}
	o, err := parse(text)
	if err != nil {
		fail(err)
	}
	armed = o
	return true
}

func parse(text string) (*order, error) {
	if file, ok := strings.CutPrefix(text, "trace "); ok {
		return &order{trace: file}, nil
	}
	name, number, found := strings.Cut(text, ":")
	o := &order{name: name, n: 1}
	if found {
		var err error
		if o.n, err = strconv.Atoi(number); err != nil || o.n < 1 {
			return nil, fmt.Errorf("%s: %q is no count", variable, number)
		}
	}
	for _, row := range table {
		if row.Name == name {
			return o, nil
		}
	}
	return nil, fmt.Errorf("%s: there is no crash point %q", variable, name)
}

func note(file, name string) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(name + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fail(err)
	}
}

// fail ends a program whose tester asked for what cannot be.
func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
