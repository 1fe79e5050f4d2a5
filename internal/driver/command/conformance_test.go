package command_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
	"gated/internal/driver/drivertest"
)

// hoard is the directory that a command of the suite would destroy. The command's probe prints
// how many files it has.
func (b *bench) hoard(name string) string { return b.path("work", name) }

func (b *bench) empties(name string) {
	b.script("probe-"+name, "#!/bin/sh\ncat "+b.path("note-"+name)+" 2>/dev/null\necho has files\n")
	b.script("empty-"+name, "#!/bin/sh\nrm -rf -- \"$1\"\n")
	b.entry(name, []string{b.path("empty-" + name), "{where}"}, func(e *catalogue.Entry) {
		e.Probe = []string{b.path("probe-" + name), "{where}"}
		e.Params["where"] = catalogue.Param{Type: catalogue.Path, Below: b.path("work")}
	})
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.World {
		b := newBench(t)
		for _, name := range drivertest.Names() {
			b.empties(name)
		}
		fill := func(name string) {
			require.NoError(t, os.WriteFile(filepath.Join(b.hoard(name), "data"), []byte(name+strings.Repeat(" more", len(read(t, b.hoard(name)))+1)), 0o644))
		}
		return drivertest.World{
			Driver:  b.Driver,
			Restart: func() driver.Driver { return b.driver() },
			Make: func(name string) {
				require.NoError(t, os.MkdirAll(b.hoard(name), 0o700))
				b.give(b.hoard(name))
				require.NoError(t, os.WriteFile(filepath.Join(b.hoard(name), "file"), []byte("the only copy of "+name), 0o644))
			},
			Remake: func(name string) {
				b.script("empty-"+name, "#!/bin/sh\nrm -rf -- \"$1\" "+b.path("work")+"/*\n")
			},
			Change: func(name string) {
				require.NoError(t, os.WriteFile(b.path("note-"+name), []byte("somebody was here"), 0o644))
			},
			Fill:    fill,
			Content: func(name string) string { return read(t, b.hoard(name)) },
			Take: func(name string) op.Ask {
				return op.Ask{Op: op.Run, Target: target(name), Params: op.Params{"where": name}}
			},
			Aliases: func(name string) []string { return []string{"empty-" + name, strings.ToUpper(name)} },
			Abilities: drivertest.Abilities{Lacks: map[string]string{
				"Protect":    "a command has no protection of its own",
				"Runs":       "a command is not started and stopped",
				"Volatile":   "a command holds nothing in memory",
				"MoveDisk":   "a command has no storage",
				"Share":      "a command has no storage",
				"Leftover":   "a command is not made through the gate",
				"Objects":    "a command has no storage",
				"NewIDs":     "a command has no storage",
				"NewDisk":    "a command has no disks",
				"Sizes":      "what a probe counts is the operator's to say",
				"Hang":       "the back end is this machine; a probe that hangs has a test of its own",
				"Lie":        "a program that says it is done is believed: what it did shows nowhere",
				"LoseAnswer": "a daemon that dies has a test of its own",
				"Twice":      "an exit status comes once",
			}},
		}
	})
}

// read digests all files below a directory. It returns "" if there is no directory.
func read(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		sum.Write([]byte(path + "\n" + string(b)))
		return err
	}))
	return hex.EncodeToString(sum.Sum(nil))
}
