package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// decidingKind is one kind of file or directory that decides: what a test writes into
// gated.yaml for it, and the file or directory.
type decidingKind struct {
	name   string
	config func(w *world, path string) string
	dir    bool
	only   []string // of the ways to spoil it; nil is all
}

// decidingKinds are all that gated.yaml can name, and itself.
var decidingKinds = []decidingKind{
	{name: "gated.yaml"},
	{name: "revocation_file", config: func(_ *world, path string) string { return "revocation_file: " + path + "\n" }},
	{name: "desired.dir", config: func(_ *world, path string) string { return "desired: {dir: " + path + "}\n" }, dir: true},
	{name: "local.root", config: func(_ *world, path string) string { return "local: {root: " + path + "}\n" }, dir: true},
	{name: "local.commands.x", config: func(_ *world, path string) string {
		return "local: {commands: {x: {argv: [" + path + "]}}}\n"
	}},
	{name: "commands.x", config: func(_ *world, path string) string {
		return "commands: {x: {argv: [" + path + "], benign: true}}\n"
	}},
	{name: "commands.x.probe", config: func(_ *world, path string) string {
		return "commands: {x: {argv: [/bin/true], probe: [" + path + "]}}\n"
	}},
	{name: "commands.x", config: func(w *world, path string) string { // what runs a script
		script := filepath.Join(w.dir, "script")
		require.NoError(w.t, os.WriteFile(script, []byte("#!"+path+"\n"), 0o755))
		return "commands: {x: {argv: [" + script + "]}}\n"
	}},
	{name: "hub.ca", config: func(_ *world, path string) string {
		return "hub: {url: https://127.0.0.1:1, ca: " + path + "}\n"
	}},
	{name: "hub.token_file", config: func(_ *world, path string) string {
		return "hub: {url: https://127.0.0.1:1, token_file: " + path + "}\n"
	}},
	{name: "proxmox.ca_file", config: func(w *world, path string) string {
		return "proxmox: {url: \"https://127.0.0.1:1\", node: n, storage: s, token_file: " + w.dir + "/none, ca_file: " + path + "}\n"
	}},
	{name: "proxmox.token_file", config: func(w *world, path string) string {
		return "proxmox: {url: \"https://127.0.0.1:1\", node: n, storage: s, ca_file: " + w.dir + "/none, token_file: " + path + "}\n"
	}},
	{name: "libvirt.socket", config: func(_ *world, path string) string {
		return "libvirt: {socket: " + path + "}\n"
	}, only: []string{"its directory", "one above", "its directory's owner"}},
}

// spoiled are the ways in which others could change a file at path, which is in
// two directories of the test's own. at is what is wrong then.
var spoiled = []struct {
	name string
	do   func(t *testing.T, path string) (at string)
}{
	{"its group", func(t *testing.T, path string) string { return mode(t, path, 0o020) }},
	{"others", func(t *testing.T, path string) string { return mode(t, path, 0o002) }},
	{"its owner", func(t *testing.T, path string) string { return given(t, path) }},
	{"its directory", func(t *testing.T, path string) string { return mode(t, filepath.Dir(path), 0o002) }},
	{"its directory's owner", func(t *testing.T, path string) string { return given(t, filepath.Dir(path)) }},
	{"one above", func(t *testing.T, path string) string { return mode(t, filepath.Dir(filepath.Dir(path)), 0o020) }},
	{"a link to it", func(t *testing.T, path string) string {
		free := filepath.Join(filepath.Dir(filepath.Dir(path)), "free")
		require.NoError(t, os.Mkdir(free, 0o755))
		require.NoError(t, os.Rename(path, filepath.Join(free, "moved")))
		require.NoError(t, os.Symlink(filepath.Join(free, "moved"), path))
		return mode(t, free, 0o002)
	}},
}

// mode adds bits to a path's mode.
func mode(t *testing.T, path string, bits os.FileMode) string {
	t.Helper()
	info := must.Get(os.Stat(path))(t)
	require.NoError(t, os.Chmod(path, info.Mode().Perm()|bits))
	return path
}

// given makes a path another uid's.
func given(t *testing.T, path string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	require.NoError(t, os.Lchown(path, 4242, -1))
	return path
}

// mends is the command that a refusal's hint ends with.
func mends(at, how string) string {
	if strings.HasSuffix(how, "owner") {
		return "chown -h root " + at
	}
	return "chmod go-w " + at
}

// place makes what a kind's setting names, in directories of its own, and writes
// the setting.
func (k decidingKind) place(w *world) (path string) {
	w.t.Helper()
	if k.config == nil {
		return filepath.Join(w.state, "gated.yaml")
	}
	path = filepath.Join(w.dir, "above", "dir", "it")
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	if k.dir {
		require.NoError(w.t, os.Mkdir(path, 0o700))
		if k.name == "desired.dir" {
			require.NoError(w.t, os.WriteFile(filepath.Join(path, "a.yaml"), []byte("apiVersion: gated/v1\nhost: "+testHost+"\nguests: []\n"), 0o644))
		}
	} else {
		require.NoError(w.t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	}
	w.config(k.config(w, path))
	return path
}

// TestWhatOthersCanWriteIsRefusedAtStart, every kind of file in every way.
func TestWhatOthersCanWriteIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	for i, k := range decidingKinds {
		for _, s := range spoiled {
			if k.only != nil && !slices.Contains(k.only, s.name) {
				continue
			}
			t.Run(fmt.Sprintf("%d %s %s", i, k.name, s.name), func(t *testing.T) {
				w := newUnheard(t)
				if k.config == nil { // the state directory needs one above it
					w.state = filepath.Join(w.dir, "above", "state")
					require.NoError(t, os.Mkdir(filepath.Dir(w.state), 0o755))
				}
				w.init()
				at := s.do(t, k.place(w))
				ctx, cancel := context.WithTimeout(t.Context(), patience) // a daemon that starts is the fault
				defer cancel()
				err := w.run(ctx)
				require.ErrorIs(t, err, refusal.NotAllowed)
				r := refusal.As(err)
				require.Contains(t, r.Detail, at)
				if k.config != nil {
					require.True(t, strings.HasPrefix(r.Detail, k.name+": "), r.Detail)
				}
				if at != w.state { // the state directory's own words ask whether somebody did
					require.True(t, strings.HasSuffix(r.Hint, mends(at, s.name)), r.Hint)
				}
			})
		}
	}
}

// TestWhatOthersCanWriteChangesNothingAtReload: what was in force stays, and status
// says what is wrong.
func TestWhatOthersCanWriteChangesNothingAtReload(t *testing.T) {
	for i, k := range decidingKinds {
		for _, s := range spoiled {
			if k.only != nil && !slices.Contains(k.only, s.name) {
				continue
			}
			t.Run(fmt.Sprintf("%d %s %s", i, k.name, s.name), func(t *testing.T) {
				w := newWorld(t)
				if k.config == nil {
					w.state = filepath.Join(w.dir, "above", "state")
					require.NoError(t, os.Mkdir(filepath.Dir(w.state), 0o755))
				}
				w.init()
				w.serve()
				was := w.status().Policy
				path := k.place(w)
				w.config("policy: {max_validity: 1h}\n")
				at := s.do(t, path)
				w.hup()
				h := w.health("settings")
				require.False(t, h.OK)
				require.Contains(t, h.Detail, at)
				require.Equal(t, was, w.status().Policy, "nothing changed")
				if strings.HasSuffix(s.name, "owner") {
					require.NoError(t, os.Lchown(at, os.Geteuid(), -1))
				} else {
					info := must.Get(os.Stat(at))(t)
					require.NoError(t, os.Chmod(at, info.Mode().Perm()&^0o022))
				}
				w.hup()
				require.True(t, w.health("settings").OK, w.health("settings").Detail)
				require.NotEqual(t, was, w.status().Policy)
				w.halt()
			})
		}
	}
}

// TestACommandThatSomebodyAppended never runs: the file that lists it was theirs to
// write.
func TestACommandThatSomebodyAppended(t *testing.T) {
	w := newInitialised(t)
	conf := filepath.Join(w.state, "gated.yaml")
	require.NoError(t, os.Chmod(w.state, 0o711))
	require.NoError(t, os.Chmod(conf, 0o666))
	w.config("commands: {theirs: {argv: [/bin/true], benign: true}}\n")
	require.ErrorIs(t, w.run(t.Context()), refusal.NotAllowed)
}

// TestARevocationFileOfOthers refuses every signature from the moment that it is
// theirs to write: they could have taken a key out of it.
func TestARevocationFileOfOthers(t *testing.T) {
	w := newInitialised(t)
	path := w.file("gone", "")
	w.config("revocation_file: " + path + "\n")
	w.serve()
	id := w.waiting("web")
	from := len(w.log.String())
	require.NoError(t, os.Chmod(path, 0o666))
	w.log.await(t, from, "every signature is refused")
	require.ErrorIs(t, w.approve(id), refusal.Unavailable)
	require.Contains(t, w.health("revoked keys").Detail, "chmod go-w "+path)
	from = len(w.log.String())
	require.NoError(t, os.Chmod(path, 0o600))
	w.log.await(t, from, "revoked keys are in force")
	require.NoError(t, w.approve(id))
	w.haltSound()
}

// TestWishesOfOthers: a document or a directory that others can write to is no
// wish, and what was wished before stays.
func TestWishesOfOthers(t *testing.T) {
	w := newInitialised(t)
	dir := filepath.Join(w.dir, "wishes")
	require.NoError(t, os.Mkdir(dir, 0o755))
	doc := filepath.Join(dir, "a.yaml")
	wish := func(guests string) {
		require.NoError(t, os.WriteFile(doc, []byte("apiVersion: gated/v1\nhost: "+testHost+"\nguests: "+guests+"\n"), 0o644))
	}
	wish("[]")
	w.config("desired: {dir: " + dir + ", interval: 1s}\n")
	w.serve()
	for _, c := range []struct {
		at   string
		mode os.FileMode
	}{{doc, 0o664}, {doc, 0o646}, {dir, 0o777}, {dir, 0o1777}} {
		info := must.Get(os.Stat(c.at))(t)
		require.NoError(t, unix.Chmod(c.at, uint32(c.mode)))
		wish("[{name: theirs}]")
		require.Eventually(t, func() bool {
			e := w.status().Sources[0].Error
			return e != nil && e.Code == refusal.NotAllowed && strings.Contains(e.Detail, c.at+" may be written by") && strings.HasSuffix(e.Detail, "chmod go-w "+c.at)
		}, patience, 10*time.Millisecond)
		wish("[]")
		require.NoError(t, os.Chmod(c.at, info.Mode()))
		require.Eventually(t, func() bool {
			return w.status().Sources[0].Error == nil
		}, patience, 10*time.Millisecond)
	}
	require.Empty(t, must.Get(w.client.Guests(t.Context()))(t))
	w.halt()
}
