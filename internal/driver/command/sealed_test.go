package command_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command/catalogue"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"
)

// replacements are the ways to replace a file.
var replacements = map[string]func(t *testing.T, path, text string){
	"in place": func(t *testing.T, path, text string) {
		f := must.Get(os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0))(t)
		must.Get(f.WriteString(text))(t)
		require.NoError(t, f.Close())
	},
	"by a rename": func(t *testing.T, path, text string) {
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o755))
		require.NoError(t, os.Rename(path+".new", path))
	},
	"by a link": func(t *testing.T, path, text string) {
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o755))
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(path+".new", path))
	},
}

// rigged is an entry whose interpreter, program and probe are files of the test. Each writes
// that it ran.
func (b *bench) rigged() map[string]string {
	b.t.Helper()
	copyFile(b.t, "/bin/sh", b.path("sh"))
	files := map[string]string{"script": "#!" + b.path("sh") + "\necho the old one >> ran\n", "probe": "#!" + b.path("sh") + "\necho fine\n"}
	for name, text := range files {
		b.script(name, text)
	}
	b.entry("rigged", []string{b.path("script")}, func(e *catalogue.Entry) { e.Probe = []string{b.path("probe")} })
	return map[string]string{"script": "#!/bin/sh\necho the new one >> ran\n", "probe": "#!/bin/sh\necho fine\n# another\n", "sh": "\x7fELF no more"}
}

// If a file is rewritten before the permit is used, the step is stale and nothing runs.
func TestRewrittenBeforeItRuns(t *testing.T) {
	for how, replace := range replacements {
		files := []string{"script"}
		if how == "in place" {
			files = []string{"script", "probe", "sh"}
		}
		for _, file := range files {
			b := newBench(t)
			news := b.rigged()
			g := b.gate()
			r := g.Approved(drivertest.Hub, op.Ask{Op: op.Run, Target: target("rigged"), Params: op.Params{}})
			replace(t, b.path(file), news[file])
			if file == "sh" { // a working program, but another one
				text := must.Get(os.ReadFile("/bin/sh"))(t)
				replace(t, b.path(file), string(text)+"\x00")
			}
			require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget, "%s %s", file, how)
			require.Equal(t, op.StateRefused, g.Step(r.ID).State)
			require.NoFileExists(t, b.path("work", "ran"))
		}
	}
}

// If a file is rewritten after that, the hashed copy runs.
func TestRewrittenAfterItWasHashed(t *testing.T) {
	for how, replace := range replacements {
		b := newBench(t)
		news := b.rigged()
		b.BeforeRun(func() {
			for file, text := range news {
				replace(t, b.path(file), text)
			}
		})
		must.Get(b.run(asking("rigged")))(t, how)
		ran := must.Get(os.ReadFile(b.path("work", "ran")))(t)
		require.Equal(t, "the old one\n", string(ran), how)
	}
}

// The copies are sealed, also against the program itself.
func TestTheCopyCannotBeWritten(t *testing.T) {
	b := newBench(t)
	did, err := b.does(`sh -c 'echo "echo owned" >> /proc/self/fd/3' 3<&3; sh -c ': > /proc/self/fd/3'; sh -c 'echo x >&3'
cat /proc/self/fd/3 | head -n 1
`, nil)
	require.NoError(t, err)
	require.Contains(t, did.Output, "\n#!/bin/sh\n")
	require.NotContains(t, did.Output, "owned\n")
}

// A program that another user could have changed, or a file that is no program, does not run.
// The list shows it with the reason.
func TestProgramsThatAreNotTrusted(t *testing.T) {
	b := newBench(t)
	script := "#!/bin/sh\ntouch ran\n"
	at := func(dir string) string {
		require.NoError(t, os.MkdirAll(b.path(dir), 0o755))
		return b.script(dir+"/x", script)
	}
	for name, c := range map[string]struct {
		make func() string
		why  string
	}{
		"missing":          {func() string { return b.path("missing") }, "cannot be opened"},
		"a directory":      {func() string { return b.path("work") }, ""},
		"not executable":   {func() string { p := at("plain"); require.NoError(t, os.Chmod(p, 0o644)); return p }, "not executable"},
		"others may write": {func() string { p := at("open"); require.NoError(t, os.Chmod(p, 0o757)); return p }, "may be written by others"},
		"its group may":    {func() string { p := at("group"); require.NoError(t, os.Chmod(p, 0o775)); return p }, "may be written by the group"},
		"their directory":  {func() string { p := at("dir"); require.NoError(t, os.Chmod(b.path("dir"), 0o777)); return p }, "may be written by others"},
		"by a link there": {func() string {
			p := at("linked")
			require.NoError(t, os.Mkdir(b.path("links"), 0o755))
			require.NoError(t, os.Chmod(b.path("links"), 0o777))
			require.NoError(t, os.Symlink(p, b.path("links", "x")))
			return b.path("links", "x")
		}, "may be written by others"},
		"a link in a loop": {func() string { require.NoError(t, os.Symlink("loop", b.path("loop"))); return b.path("loop") }, "too many levels of symbolic links"},
		"nobody's format":  {func() string { return b.script("text", "touch ran\n") }, "neither an ELF program nor a script"},
		"by way of env":    {func() string { return b.script("env", "#!/usr/bin/env sh\ntouch ran\n") }, "env runs it"},
		"a relative one":   {func() string { return b.script("relative", "#!sh\ntouch ran\n") }, "no interpreter by an absolute path"},
		"read by a script": {func() string { return b.script("twice", "#!"+at("reader")+"\ntouch ran\n") }, "is no ELF program"},
		"no interpreter":   {func() string { return b.script("nothing", "#!"+b.path("missing")+"\n") }, "cannot be opened"},
	} {
		b.entry("bad", []string{c.make()}, nil)
		_, err := b.Observe(t.Context(), asking("bad"))
		require.ErrorIs(t, err, refusal.Unavailable, name)
		require.ErrorContains(t, err, c.why, name)
		list := must.Get(b.List(t.Context()))(t)
		require.Len(t, list, 1)
		require.Equal(t, "unknown", list[0].Running, name)
		require.Empty(t, list[0].Incarnation)
		require.Contains(t, fact(list[0], "error"), c.why)
	}
	require.NoFileExists(t, b.path("work", "ran"))
	good := at("good")
	require.NoError(t, os.Symlink(good, b.path("good-link")))
	b.entry("bad", []string{b.path("good-link")}, nil)
	require.Contains(t, fact(b.look(asking("bad")), "program"), " -> "+good)
	if !b.own {
		b.give(good)
		require.ErrorContains(t, must.Err(b.Observe(t.Context(), asking("bad")))(t), "belongs to uid")
	}
}
