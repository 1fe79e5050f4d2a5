package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/hostgate"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

// file writes a file with the directories above it.
func file(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// Where a service manager starts the gate, what is said last names its unit: a gated serve beside it would take the state
// directory from the unit, as another user.
func TestTheLastWordsNameTheUnit(t *testing.T) {
	thisHost = hostgate.Host{Root: t.TempDir()}
	t.Cleanup(func() { thisHost = hostgate.Host{} })
	file(t, thisHost.Root+"/usr/lib/systemd/system/gated.service", "")
	home := t.TempDir()
	file(t, filepath.Join(home, ".config/systemd/user/gated.service"), "ExecStart=/usr/bin/gated serve --state /srv/own\n")
	said := func(dir string) (all []string) {
		for _, say := range []func(*tool){
			func(tl *tool) { tl.showInit(life.InitResult{StateDir: dir}) },
			func(tl *tool) {
				tl.showRestored(life.RestoreResult{InitResult: life.InitResult{StateDir: dir}})
			},
			func(tl *tool) {
				tl.showAccepted(life.Accepted{TimeState: life.TimeState{StateDir: dir, Clock: time.Unix(1, 0)}, New: "1"})
			},
			func(tl *tool) { require.NoError(t, tl.showMigrated("postgres", life.Migrated{StateDir: dir})) },
			func(tl *tool) { require.NoError(t, tl.showMigrated("sqlite", life.Migrated{StateDir: dir})) },
			func(tl *tool) {
				lost := life.Migrated{StateDir: dir}
				lost.Gate = "2"
				require.NoError(t, tl.showMigrated("sqlite", lost))
			},
			func(tl *tool) { require.NoError(t, tl.showJoined(life.Joined{StateDir: dir})) },
		} {
			var out, errs strings.Builder
			say(&tool{Tool: cli.Tool{Stdout: &out, Stderr: &errs, Getenv: func(name string) string { return map[string]string{"HOME": home}[name] }}})
			all = append(all, out.String())
		}
		return all
	}
	each := func(dir, want, not string) {
		t.Helper()
		for _, text := range said(dir) {
			require.Contains(t, text, want)
			require.NotContains(t, text, not)
		}
	}
	each(hostgate.StateDir, "gated serve", "systemctl") // systemd does not run
	require.NoError(t, os.MkdirAll(thisHost.Root+"/run/systemd/system", 0o755))
	each(hostgate.StateDir, "systemctl start gated\n", "gated serve")
	each("/srv/other", "gated serve --state /srv/other", "systemctl")
	each("/srv/own", "systemctl --user start gated\n", "gated serve")
}
