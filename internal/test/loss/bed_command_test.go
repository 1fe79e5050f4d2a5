package loss

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
)

// commandBed is an operator's catalogue of commands, which real processes run: for
// each directory one that empties it, one that adds to it, which the policy calls
// benign, one that looks, and one that leaves a process. Others empty a room.
type commandBed struct {
	t       testing.TB
	dir     string
	entries map[string]catalogue.Entry
	own     bool // the tests are not root's: commands run as they do
	uid     int
	gid     int

	forks     forks
	exchanged bool // each room has the other's name
}

// stores are the directories that commands work on. Rooms are directories that a command's parameter names, below one that
// belongs to the user of the commands.
var (
	stores = []string{"web", "db"}
	rooms  = []string{"east", "west"}
)

func newCommandBed(t testing.TB) bed {
	dir, err := os.MkdirTemp(scratchDir(), "gl")
	must(t, err)
	must(t, os.Chmod(dir, 0o755)) // commands run as a user of their own
	b := &commandBed{t: t, dir: dir, entries: map[string]catalogue.Entry{}, own: os.Geteuid() != 0, uid: os.Geteuid(), gid: os.Getegid()}
	if !b.own {
		u, err := user.Lookup("nobody")
		must(t, err)
		b.uid, err = strconv.Atoi(u.Uid)
		must(t, err)
		b.gid, err = strconv.Atoi(u.Gid)
		must(t, err)
	}
	for _, name := range stores {
		must(t, os.Mkdir(b.store(name), 0o755))
		must(t, os.Chown(b.store(name), b.uid, b.gid))
		b.entry("empty-"+name, "rm -f "+b.store(name)+"/*", "ls "+b.store(name)+" | wc -l")
		b.entry("add-"+name, `f=$(mktemp `+b.store(name)+`/program-XXXXXXXX); basename "$f" > "$f"`, "")
		b.entry("look-"+name, "ls "+b.store(name), "")
	}
	b.leaves(hiding)
	must(t, os.Mkdir(b.below(), 0o755))
	must(t, os.Chown(b.below(), b.uid, b.gid))
	for _, name := range rooms {
		must(t, os.Mkdir(b.room(name), 0o755))
		must(t, os.Chown(b.room(name), b.uid, b.gid))
		b.clears("clear-" + name)
	}
	return b
}

// leaves declares a command for each directory that leaves a process.
func (b *commandBed) leaves(script string) {
	for _, name := range stores {
		b.entry("leave-"+name, "cd "+b.store(name)+"; "+script, "")
	}
}

// clears declares a command that empties the room which its parameter names.
func (b *commandBed) clears(name string) {
	b.entry(name, `rm -f "$2"/*`, `ls "$2" | wc -l`)
	e := b.entries[name]
	e.Argv[2], e.Probe[2] = "{room}", "{room}"
	e.Params = map[string]catalogue.Param{"room": {Type: catalogue.Path, Below: b.below()}}
	if fault, _ := e.Check(); fault != nil {
		b.t.Fatal(fault)
	}
	b.entries[name] = e
}

func (b *commandBed) below() string           { return filepath.Join(b.dir, "rooms") }
func (b *commandBed) room(name string) string { return filepath.Join(b.below(), name) }

// harmless are the commands that the policy calls benign.
var harmless = []string{"add-web", "add-db", "look-web", "look-db", "leave-web", "leave-db"}

func (b *commandBed) store(name string) string { return filepath.Join(b.dir, name) }

// entry declares a command of the catalogue: a script of its own.
func (b *commandBed) entry(name, script, probe string) {
	write := func(name, script string) []string {
		path := filepath.Join(b.dir, name+".sh")
		must(b.t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		return []string{path, "--", "{note}"}
	}
	e := catalogue.Entry{Argv: write(name, script), Env: map[string]string{"PATH": "/usr/bin:/bin"}, Timeout: 30 * time.Second,
		ProbeTimeout: 30 * time.Second, Output: catalogue.MaxOutput,
		Params: map[string]catalogue.Param{"note": {Type: catalogue.String, Pattern: "[a-z]*", Max: 10}}}
	if probe != "" {
		e.Probe = write("probe-"+name, probe)
	}
	if !b.own {
		e.User = "nobody"
	}
	if fault, _ := e.Check(); fault != nil {
		b.t.Fatal(fault)
	}
	b.entries[name] = e
}

func (*commandBed) at(string, asked) {}

func (b *commandBed) open(now func() time.Time) (driver.Driver, func() error, error) {
	return command.New(command.Config{Entries: b.entries, SingleUser: b.own, Grace: time.Second, Now: now}), func() error { return nil }, nil
}

func (*commandBed) sweep() error  { return nil } // what a command takes has no trash
func (*commandBed) settle() error { return nil } // a command is over when its step is

func (b *commandBed) close() {
	must(b.t, b.forks.end(b.store("*")))
	must(b.t, os.RemoveAll(b.dir))
}

// of is the directory that a command works on.
func (b *commandBed) of(target string) string {
	_, name, _ := strings.Cut(target, "-")
	if !slices.Contains(rooms, name) {
		return b.store(name)
	}
	if aside := b.room(name) + ".aside"; isThere(aside) { // its owner put a link in its place
		return aside
	}
	if b.exchanged {
		return b.room(rooms[1-slices.Index(rooms, name)])
	}
	return b.room(name)
}

func isThere(path string) bool { _, err := os.Lstat(path); return err == nil }

func (b *commandBed) write(target string, m mark) bool {
	path := filepath.Join(b.of(target), string(m))
	return os.WriteFile(path, []byte(m+"\n"), 0o600) == nil && os.Chown(path, b.uid, b.gid) == nil
}

func (b *commandBed) erase(target string, m mark) bool {
	return os.Remove(filepath.Join(b.of(target), string(m))) == nil
}

func (b *commandBed) rename(target string, m mark) bool {
	path := filepath.Join(b.of(target), string(m))
	return os.Rename(path, path+".renamed") == nil
}

func (b *commandBed) holder(target string) string {
	if _, known := b.entries[target]; !known {
		return ""
	}
	_, name, _ := strings.Cut(target, "-")
	return name
}

// named is the room that an operator reads in what a request would run: a fact has the directory that its path names.
func (b *commandBed) named(r op.Request) string {
	for _, f := range r.Facts {
		for _, name := range rooms {
			var at unix.Stat_t
			if f.Name == "path" && unix.Stat(b.of("clear-"+name), &at) == nil && strings.Contains(f.Text, fmt.Sprintf("inode %d of", at.Ino)) {
				return name
			}
		}
	}
	return ""
}

// meddle of rooms is their owner, who puts a link to the other room in the place of one, and back, or exchanges the two.
func (b *commandBed) meddle(target, _ string, how uint8, _ int64) deed {
	_, name, _ := strings.Cut(target, "-")
	i := slices.Index(rooms, name)
	if i < 0 {
		return deed{}
	}
	other := rooms[1-i]
	room, aside := b.room(name), b.room(name)+".aside"
	switch linked := isThere(aside); {
	case how%4 == 2 && !linked && !isThere(b.room(other)+".aside") && unix.Renameat2(unix.AT_FDCWD, room, unix.AT_FDCWD, b.room(other), unix.RENAME_EXCHANGE) == nil:
		b.exchanged = !b.exchanged
		return deed{says: "the rooms are exchanged"}
	case b.exchanged:
	case !linked && how%2 == 0 && os.Rename(room, aside) == nil && os.Symlink(other, room) == nil:
		return deed{says: "the room " + name + " is a link to " + other}
	case linked && how%2 == 1 && os.Remove(room) == nil && os.Rename(aside, room) == nil:
		return deed{says: "the room " + name + " is no link any more"}
	}
	return deed{}
}

func (b *commandBed) tidy() {
	if b.exchanged {
		b.meddle("clear-"+rooms[0], "", 2, 0)
	}
	for _, name := range rooms {
		b.meddle("clear-"+name, "", 1, 0)
	}
}

func (b *commandBed) holdings() (map[item]where, error) {
	out := map[item]where{}
	for _, name := range slices.Concat(stores, rooms) {
		target := "empty-" + name
		if slices.Contains(rooms, name) {
			target = "clear-" + name
		}
		files, err := os.ReadDir(b.of(target))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(b.of(target), f.Name()))
			if err != nil {
				return nil, err
			}
			if m := mark(strings.TrimSpace(string(text))); m != "" && f.Name() != ".hides" {
				out[item{name, "data", m}] = where{name: target}
			}
		}
	}
	return out, nil
}

func (*commandBed) kind() string        { return op.KindCommand }
func (*commandBed) commands() []string  { return nil }
func (*commandBed) templates() []string { return nil }
func (*commandBed) newDisk() string     { return "d0" }
func (*commandBed) making() op.Params   { return op.Params{} }

func (b *commandBed) targets() []string {
	var out []string
	for _, name := range stores {
		out = append(out, "empty-"+name, "add-"+name, "look-"+name, "leave-"+name)
	}
	for _, name := range rooms {
		out = append(out, "clear-"+name)
	}
	return out
}

// processes is 1 if something that a command left lives: the kernel takes its lock back when it ends.
func (b *commandBed) processes(target string) int {
	if b.forks.in(b.of(target)) {
		return 1
	}
	held, err := os.Open(filepath.Join(b.of(target), ".held"))
	if err != nil {
		return 0 // no command left anything yet
	}
	defer held.Close()
	if syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		return 1
	}
	return 0
}

// free has a note that is one word, is none, or is refused.
func (*commandBed) free(target string, args [5]uint8) op.Params {
	if room, is := strings.CutPrefix(target, "clear-"); is {
		return []op.Params{{"room": room}, {"room": room}, {"room": rooms[args[1]%2]}, {"room": "../" + room}, {}}[args[0]%5]
	}
	return []op.Params{{"note": "a"}, {"note": "b"}, {}, {"note": "-x"}, {"note": fmt.Sprint(args[1])}}[args[0]%5]
}
