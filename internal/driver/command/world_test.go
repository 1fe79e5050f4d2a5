package command_test

import (
	"iter"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"
)

// bench is a directory with programs, and a driver whose entries run them.
type bench struct {
	*command.Driver
	t       *testing.T
	dir     string // which the commands' user may write to
	own     bool   // root does not run the tests, so commands run as the tests' own user
	entries map[string]catalogue.Entry
}

// worker is the user of the tests' commands if root runs the tests.
const worker = "nobody"

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), own: os.Getuid() != 0, entries: map[string]catalogue.Entry{}}
	// The testing package made the directories above, and only their owner may enter them.
	for at := b.dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o755))
	}
	require.NoError(t, os.Mkdir(b.path("work"), 0o700))
	b.give(b.path("work"))
	b.Driver = b.driver()
	return b
}

// give makes a path the worker's.
func (b *bench) give(path string) {
	b.t.Helper()
	if b.own {
		return
	}
	u := must.Get(user.Lookup(worker))(b.t)
	uid := must.Get(strconv.Atoi(u.Uid))(b.t)
	gid := must.Get(strconv.Atoi(u.Gid))(b.t)
	require.NoError(b.t, os.Chown(path, uid, gid))
}

func (b *bench) driver() *command.Driver {
	return command.New(command.Config{Entries: b.entries, SingleUser: b.own, Grace: 5 * time.Second})
}

func (b *bench) path(elem ...string) string {
	return filepath.Join(append([]string{b.dir}, elem...)...)
}

// script writes a program. It overwrites an existing one.
func (b *bench) script(name, text string) string {
	b.t.Helper()
	path := b.path(name)
	require.NoError(b.t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// entry declares a command that runs as the worker in its directory. change may change the
// entry.
func (b *bench) entry(name string, argv []string, change func(*catalogue.Entry)) {
	b.t.Helper()
	e := catalogue.Entry{Argv: argv, Dir: b.path("work"), Env: map[string]string{"PATH": "/usr/bin:/bin"}, Timeout: 30 * time.Second,
		ProbeTimeout: 30 * time.Second, Output: catalogue.MaxOutput, Params: map[string]catalogue.Param{}}
	if !b.own {
		e.User = worker
	}
	if change != nil {
		change(&e)
	}
	fault, _ := e.Check()
	require.Nil(b.t, fault)
	b.entries[name] = e
}

func target(name string) op.Target { return op.Target{Kind: op.KindCommand, Name: name} }

func asking(name string, kv ...string) op.Look {
	p := op.Params{}
	for i := 0; i < len(kv); i += 2 {
		p[kv[i]] = kv[i+1]
	}
	return op.Look{Target: target(name), Op: op.Run, Params: p}
}

func (b *bench) look(l op.Look) op.Observed {
	b.t.Helper()
	return must.Get(b.Observe(b.t.Context(), l))(b.t)
}

// gate is a real gate in front of the driver.
func (b *bench) gate() *drivertest.Gate {
	return drivertest.NewGate(b.t, drivertest.World{Driver: b.Driver})
}

// run asks for a command, signs it, and lets the driver run it.
func (b *bench) run(l op.Look) (driver.Result, error) {
	b.t.Helper()
	g := b.gate()
	r := g.Approved(drivertest.Hub, op.Ask{Op: l.Op, Target: l.Target, Params: l.Params})
	return driver.Run(b.t.Context(), g.Permitted(r.ID), b)
}

// does runs an entry whose program is that shell script.
func (b *bench) does(script string, change func(*catalogue.Entry)) (driver.Result, error) {
	b.t.Helper()
	b.entry("does", []string{b.script("does", "#!/bin/sh\n"+script)}, change)
	return b.run(asking("does"))
}

// timeouts are what a command has in one try after the other, until the test is content: one that began too late on a busy
// machine has twice the time.
func timeouts(first time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for limit := first; limit <= time.Minute && yield(limit); limit *= 2 {
		}
	}
}

// beganTooLate asks of an attempt that did not get so far what holds for each one that took too long.
func beganTooLate(t *testing.T, err error, limit time.Duration) {
	t.Helper()
	require.True(t, driver.IsUnknown(err), "%v", err)
	require.ErrorContains(t, err, "took longer than "+limit.String())
}

// fact is the text of all facts of a name, each on a line of its own.
func fact(o op.Observed, name string) string {
	var out []string
	for _, f := range o.Facts {
		if f.Name == name {
			out = append(out, f.Text)
		}
	}
	return strings.Join(out, "\n")
}

func anyText(max int64) catalogue.Param {
	return catalogue.Param{Type: catalogue.String, Pattern: `(?s).*`, Max: max}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	return must.Get(strconv.ParseUint(s, 10, 32))(t)
}
