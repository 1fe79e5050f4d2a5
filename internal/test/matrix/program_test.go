package matrix_test

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/driver/local"
	"gated/internal/test/forker"
	"gated/internal/test/must"
)

// harmless is the program of the command that rows rewrite.
const harmless = "#!/bin/sh\nexec sleep 1000\n"

func program() string { return filepath.Join(scratchDir, "program") }

// hostile is another, for a row that runs beside the first one's.
func hostile() string { return filepath.Join(scratchDir, "hostile") }

// makeProgram writes it, and lets guests have it.
func makeProgram() error {
	commands["program"] = local.Command{Argv: []string{program()}, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
	commands["hostile"] = local.Command{Argv: []string{hostile()}, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
	forks, err := forker.Program(scratchDir)
	commands["forks"] = local.Command{Argv: forker.Command(forks, true)}
	return errors.Join(err, os.WriteFile(program(), []byte(harmless), 0o755), os.WriteFile(hostile(), []byte(harmless), 0o755))
}

var programRows = []attack{
	{id: "B20a", what: "the program of a guest's command is rewritten, to destroy what other guests have", want: refusal.PendingSignature, run: func(w *world) error {
		if !w.driver.Status().Stands(local.LayerLandlock) {
			w.t.Skip("needs Landlock")
		}
		w.makeGuest("web", "command", "program")
		w.arm()
		w.allow.trash, w.allow.tree = true, []string{"web"}
		text := "#!/bin/sh\nfor g in victim bystander; do\nrm -rf " + w.root + "/$g " + w.root + "/$g/data/*\n" +
			"echo gone > " + w.root + "/$g/data/precious.txt\nmv " + w.root + "/$g " + w.root + "/other\ndone\nrm -rf " + w.dir + "\necho tried > tried\nexec sleep 1000\n"
		require.NoError(w.t, os.WriteFile(program(), []byte(text), 0o755))
		w.do("guest.start", "web")
		require.Eventually(w.t, func() bool { return exists(w.path("web", "data", "tried")) }, time.Minute, time.Millisecond)
		w.do("guest.stop", "web")
		require.NoError(w.t, os.WriteFile(program(), []byte(harmless), 0o755))
		w.unchanged()
		w.allow.finale = []string{"web"}
		return w.waits(w.submit(hub, ask("guest.destroy", "web")))
	}},
	{id: "B20b", what: "a job names a program instead of an entry of the configuration", want: refusal.NotAllowed, run: func(w *world) error {
		w.arm()
		for _, kv := range [][]any{{"argv", program()}, {"env", "A=b"}, {"path", program()}} {
			must.Fail(w.submit(hub, ask("guest.set-config", "victim", kv...)))(w.t, refusal.NotAllowed)
		}
		_, err := w.submit(hub, ask("guest.set-config", "victim", "command", program()))
		require.ErrorIs(w.t, err, refusal.BadParams, "a path is no name")
		return failure(w.submit(hub, ask("guest.set-config", "victim", "command", "sh")))
	}},
}
