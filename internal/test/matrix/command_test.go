package matrix_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
	"gated/internal/host/config"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// programs is a catalogue whose files all belong to the case.
type programs struct {
	w       *world
	dir     string
	entries map[string]catalogue.Entry
}

// withPrograms gives a world a catalogue: purge is a script, read by an
// interpreter of the case's, with a probe; binary is a program.
func (w *world) withPrograms() *programs {
	w.t.Helper()
	c := &programs{w: w, dir: filepath.Join(filepath.Dir(w.root), "programs"), entries: map[string]catalogue.Entry{}}
	require.NoError(w.t, os.MkdirAll(c.path("root", "in"), 0o755))
	require.NoError(w.t, os.Symlink("in", c.path("root", "link")))
	copyProgram(w, "/bin/sh", c.path("sh"))
	copyProgram(w, "/bin/touch", c.path("binary"))
	c.write("purge", "#!"+c.path("sh")+"\necho \"$@\" >> "+c.ran()+"\nprintf '\\033[2Jpurged\\n'\n")
	c.write("probe", "#!"+c.path("sh")+"\ncat "+c.path("state")+" 2>/dev/null\necho nothing else\n")
	text := catalogue.Param{Type: catalogue.String, Pattern: "(?s).*", Max: 200}
	base := catalogue.Entry{Env: map[string]string{"PATH": "/usr/bin:/bin"}, Timeout: time.Minute, ProbeTimeout: 30 * time.Second, Output: catalogue.MaxOutput}
	purge, binary := base, base
	purge.Argv, purge.Probe = []string{c.path("purge"), "{what}", "{where}"}, []string{c.path("probe")}
	purge.Params = map[string]catalogue.Param{"what": text, "where": {Type: catalogue.Path, Below: c.path("root")}}
	binary.Argv = []string{c.path("binary"), c.ran()}
	c.entries["purge"], c.entries["binary"] = purge, binary
	c.start()
	return c
}

// start makes the driver, as a start of the daemon does.
func (c *programs) start() {
	c.w.commands = command.New(command.Config{Entries: c.entries, SingleUser: true})
}

func (c *programs) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}
func (c *programs) ran() string { return c.path("ran") }

// write writes a program in place.
func (c *programs) write(name, text string) {
	c.w.t.Helper()
	require.NoError(c.w.t, os.WriteFile(c.path(name), []byte(text), 0o755))
}

func copyProgram(w *world, from, to string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(to, must.Get(os.ReadFile(from))(w.t), 0o755))
}

// exchange gives each of two directories the other's name.
func exchange(w *world, a, b string) {
	w.t.Helper()
	require.NoError(w.t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
}

func runs(name string, kv ...any) op.Ask {
	a := ask(op.Run, name, kv...)
	a.Target.Kind = op.KindCommand
	return a
}

func purge(kv ...any) op.Ask {
	return runs("purge", append([]any{"what", "everything", "where", "link"}, kv...)...)
}

// otherProgram is a row in which something of a command changes after the operator
// approved it: it is stale, the approval is used up, and nothing ran.
func otherProgram(id, what string, a op.Ask, change func(c *programs)) attack {
	return attack{id: id, what: what + ", between approval and execution", want: refusal.StaleTarget, run: func(w *world) error {
		c := w.withPrograms()
		r := w.request(a)
		w.mustApprove(r)
		w.arm()
		change(c)
		err := w.executor().execute(w.ctx, r.ID)
		require.NoFileExists(w.t, c.ran())
		require.Equal(w.t, op.StateRefused, w.stepOf(r.ID).State)
		require.Equal(w.t, nonce.Used, w.nonceRows()[r.Nonce].fate)
		require.ErrorIs(w.t, w.send(r.ID, w.alice.envelope(w.t, r.Payload)), refusal.Replayed)
		return err
	}}
}

// unfit is a row in which a job asks for a command with parameters that it must
// not have.
func unfit(id, what string, want refusal.Code, asks ...op.Ask) attack {
	return attack{id: id, what: "a job's parameters for a command: " + what, want: want, run: func(w *world) error {
		c := w.withPrograms()
		w.arm()
		var err error
		for _, a := range asks {
			_, err = w.submit(hub, a)
			require.ErrorIs(w.t, err, want, "%v", a.Params)
		}
		require.NoFileExists(w.t, c.ran())
		return err
	}}
}

// commandRows are attacks on and by the operator's catalogue of commands.
var commandRows = []attack{
	otherProgram("B20c", "a script is rewritten in place", purge(), func(c *programs) { c.write("purge", "#!/bin/sh\ntouch "+c.ran()+"\n") }),
	otherProgram("B20d", "a script is replaced by a rename", purge(), func(c *programs) {
		c.write("purge.new", "#!/bin/sh\ntouch "+c.ran()+"\n")
		require.NoError(c.w.t, os.Rename(c.path("purge.new"), c.path("purge")))
	}),
	otherProgram("B20e", "a binary is rewritten in place", runs("binary"), func(c *programs) { copyProgram(c.w, "/usr/bin/tee", c.path("binary")) }),
	otherProgram("B20f", "a binary becomes a link to another", runs("binary"), func(c *programs) {
		copyProgram(c.w, "/usr/bin/tee", c.path("tee"))
		require.NoError(c.w.t, os.Remove(c.path("binary")))
		require.NoError(c.w.t, os.Symlink(c.path("tee"), c.path("binary")))
	}),
	otherProgram("B20g", "a script's interpreter is rewritten", purge(), func(c *programs) {
		text := must.Get(os.ReadFile(c.path("sh")))(c.w.t)
		require.NoError(c.w.t, os.WriteFile(c.path("sh"), append(text, 0), 0o755))
	}),
	otherProgram("B20h", "a probe is rewritten to go on saying the same", purge(), func(c *programs) { c.write("probe", "#!/bin/sh\necho nothing else\n") }),
	otherProgram("B20i", "the probe prints something else", purge(), func(c *programs) { c.write("state", "12 rows more\n") }),
	otherProgram("B20j", "the link that a path leads through is moved", purge(), func(c *programs) {
		require.NoError(c.w.t, os.Mkdir(c.path("root", "other"), 0o755))
		require.NoError(c.w.t, os.Remove(c.path("root", "link")))
		require.NoError(c.w.t, os.Symlink("other", c.path("root", "link")))
	}),
	otherProgram("B20k", "the catalogue gets another word for it", purge(), func(c *programs) {
		e := c.entries["purge"]
		e.Argv = append(e.Argv[:len(e.Argv):len(e.Argv)], "--all")
		c.entries["purge"] = e
		c.start()
	}),
	otherProgram("B20l", "the catalogue gets another environment for it", purge(), func(c *programs) {
		e := c.entries["purge"]
		e.Env = map[string]string{"LD_PRELOAD": "/tmp/x.so"}
		c.entries["purge"] = e
		c.start()
	}),
	otherProgram("B20m", "the catalogue loses it", purge(), func(c *programs) { delete(c.entries, "purge"); c.start() }),
	{id: "B20n", what: "a probe rewrites the program while it is being looked at, after it was hashed", want: refusal.Code(op.StateSucceeded), run: func(w *world) error {
		c := w.withPrograms()
		again := must.Get(os.ReadFile(c.path("purge")))(w.t)
		c.write("probe", "#!/bin/sh\nif [ -e "+c.path("evil")+" ]; then echo '#!/bin/sh' > "+c.path("purge")+"; echo 'echo evil >> "+c.ran()+"' >> "+c.path("purge")+"; fi\n")
		r := w.request(purge())
		w.mustApprove(r)
		w.arm()
		w.allow.runs = true
		c.write("evil", "")
		require.NoError(w.t, w.runAll())
		require.NotEqual(w.t, again, must.Get(os.ReadFile(c.path("purge")))(w.t), "it was rewritten")
		require.Equal(w.t, "everything "+c.path("root", "in")+"\n", string(must.Get(os.ReadFile(c.ran()))(w.t)), "what ran is what was hashed")
		return refusal.Code(w.stepOf(r.ID).State)
	}},
	{id: "B20o", what: "a program may be written by everybody, between approval and execution", want: refusal.Unavailable, run: func(w *world) error {
		c := w.withPrograms()
		r := w.request(purge())
		w.mustApprove(r)
		w.armUnlogged("it stays approved, and is tried again later")
		w.allow.runs = true
		require.NoError(w.t, os.Chmod(c.path("purge"), 0o777))
		err := w.executor().execute(w.ctx, r.ID)
		require.NoFileExists(w.t, c.ran())
		require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State)
		require.NoError(w.t, os.Chmod(c.path("purge"), 0o755))
		return err
	}},
	unfit("B20p", "one that begins with a dash", refusal.BadParams, purge("what", "-rf"), purge("what", "--no-preserve-root")),
	otherProgram("U31a", "another directory gets the name of the one that was shown", purge(), func(c *programs) {
		require.NoError(c.w.t, os.Mkdir(c.path("root", "other"), 0o755))
		exchange(c.w, c.path("root", "in"), c.path("root", "other"))
	}),
	{id: "U31b", what: "another directory gets the name of the one that was shown, before the operator signs", want: refusal.StaleTarget, run: func(w *world) error {
		c := w.withPrograms()
		r := w.request(purge())
		w.arm()
		require.NoError(w.t, os.Mkdir(c.path("root", "other"), 0o755))
		exchange(w, c.path("root", "in"), c.path("root", "other"))
		err := w.send(r.ID, w.alice.envelope(w.t, r.Payload))
		require.NoFileExists(w.t, c.ran())
		exchange(w, c.path("root", "in"), c.path("root", "other"))
		return err
	}},
	otherProgram("U39a", "another directory gets the name of the one in which the file is that was shown", purge("where", "in/file"), func(c *programs) {
		require.NoError(c.w.t, os.Mkdir(c.path("root", "other"), 0o755))
		require.NoError(c.w.t, os.WriteFile(c.path("root", "other", "file"), nil, 0o644))
		exchange(c.w, c.path("root", "in"), c.path("root", "other"))
	}),
	otherProgram("U39b", "the directory that was shown is removed, and one that is made then has its name, and perhaps its number", purge(), func(c *programs) {
		require.NoError(c.w.t, os.Remove(c.path("root", "in")))
		require.NoError(c.w.t, os.Mkdir(c.path("root", "in"), 0o755))
	}),
	unfit("B20q", "a path that leads out of its root", refusal.BadParams, purge("where", "../purge"), purge("where", "/etc/passwd"), purge("where", "."), purge("where", "link/../../sh")),
	unfit("B20r", "the environment, the user, another word", refusal.BadParams, purge("LD_PRELOAD", "/x"), purge("env", "A=b"), purge("user", "root"), purge("argv", "x")),
	unfit("B20s", "none of them, and other types", refusal.BadParams, runs("purge"), purge("what", int64(1)), purge("what", true)),
	unfit("B20t", "what a terminal shows as something else", refusal.Malformed, purge("what", "a\x1b[2Jb"), purge("what", "a\nb"), purge("what", "a\u202eb"), purge("what", "\x00")),
	{id: "B20u", what: "values hold what a shell, a template and a loader would act on; what is printed holds an escape sequence", want: refusal.Code(op.StateSucceeded),
		run: func(w *world) error {
			c := w.withPrograms()
			value := "; touch " + c.path("owned") + " $(touch " + c.path("owned") + ") {where} {{what}} LD_PRELOAD=/x"
			r := w.request(purge("what", value))
			w.mustApprove(r)
			w.arm()
			w.allow.runs = true
			did := must.Get(driver.Run(w.ctx, must.Get(w.gate.Permit(w.ctx, r.ID))(w.t), w.commands))(w.t)
			require.NoError(w.t, w.executor().record(w.ctx, w.stepOf(r.ID), nil))
			require.Equal(w.t, `\x1b[2Jpurged`, strings.TrimSpace(did.Output))
			require.NoFileExists(w.t, c.path("owned"))
			require.Equal(w.t, value+" "+c.path("root", "in")+"\n", string(must.Get(os.ReadFile(c.ran()))(w.t)))
			return refusal.Code(w.stepOf(r.ID).State)
		}},
	{id: "B20v", what: "an entry would take a password as a parameter, or run as gated itself", want: refusal.Malformed, run: func(w *world) error {
		c := w.withPrograms()
		strict := command.New(command.Config{Entries: c.entries})
		w.armUnlogged("it does not start")
		must.Fail(strict.Observe(w.ctx, op.At(op.Target{Kind: op.KindCommand, Name: "purge"})))(w.t, refusal.NotAllowed)
		_, err := config.Parse("gated.yaml", []byte(`{host: h, commands: {x: {argv: [/bin/x, "{password}"], params: {password: {type: string, pattern: ".*"}}}}}`))
		require.ErrorContains(w.t, err, "sounds like a secret")
		return err
	}},
}
