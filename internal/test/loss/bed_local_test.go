package loss

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/test/forker"
	"gated/internal/test/spareuids"
)

// What a program does where guests have uids of their own, or files of the gate are in reach.
const (
	probes = "probe" // tries to reach the gate's own files
	hides  = "hide"  // leaves a process that only its uid gives away
)

// hiding is a shell script that leaves one process. The process left its session, its process group and its environment, ignores
// SIGTERM, has deleted its own program file, and holds .held open and locked.
const hiding = `echo 'rm .hides; exec sleep 1000' > .hides; exec 9>> .held; flock -n 9; ` +
	`(trap "" TERM HUP; exec env -i PATH="$PATH" setsid /bin/sh ./.hides) > /dev/null 2>&1 & ` +
	`exec 9>&-; while [ -e .hides ]; do sleep 0.01; done; `

// localBed is guests that are directories, with real processes in them: a shell
// that does what its command says, and then waits.
type localBed struct {
	telling
	t        testing.TB
	dir      string // the gate's state directory
	root     string
	uids     local.UIDRange
	giveBack func() // of the uids
	forks    forks  // in the place of hides, if it has a program
	of       asked
	now      func() time.Time
	d        *local.Driver
	bad      error // what a guest's program did that it should not have been able to
}

func newLocalBed(t testing.TB) bed { return &localBed{t: t, giveBack: func() {}} }

func (b *localBed) at(dir string, of asked) {
	b.dir, b.root, b.of = dir, filepath.Join(dir, "guests"), of
}

// wait is what a program does in the end: it says under its pid that it came so far,
// and stays.
const wait = `: > .ran-$$; exec sleep 1000`

func (b *localBed) scripts() map[string]local.Command {
	db := filepath.Join(b.dir, "gated.db")
	out := map[string]local.Command{}
	for name, script := range map[string]string{
		keeps:  wait,
		purges: `rm -rf ./* .ran-*; ` + wait,
		fills:  `f=$(mktemp ./program-XXXXXXXX); echo "${f#./}" > "$f"; ` + wait,
		probes: `exec 2>/dev/null; cat ` + db + ` > .stolen; (echo x >> ` + db + `) && echo wrote >> .stolen; ` +
			`chmod 777 ` + b.dir + ` && echo chmod >> .stolen; rm -rf ` + b.root + `/* && echo rm >> .stolen; ` + wait,
		hides: hiding + wait,
	} {
		out[name] = local.Command{Argv: []string{"/bin/sh", "-c", script}, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
	}
	if b.forks.program != "" {
		out[hides] = local.Command{Argv: forker.Command(b.forks.program, true)}
	}
	return out
}

func (b *localBed) open(now func() time.Time) (driver.Driver, func() error, error) {
	var err error
	b.now = now
	tells := func() time.Time { b.here(true); return now() } // the driver asks right before it moves or starts something
	if os.Geteuid() == 0 && b.uids == (local.UIDRange{}) {   // root's own uid runs no guests
		b.uids.First, b.uids.Last = spareuids.Next(func(giveBack func()) { b.giveBack = giveBack })
	}
	b.d, err = local.New(local.Config{Root: b.root, StopGrace: 2 * time.Second, SingleUser: true, Commands: b.scripts(), GuestUIDs: b.uids, Now: tells,
		Wanted: b.of.wanted})
	if err != nil {
		return nil, nil, err
	}
	return b.d, b.d.Close, nil
}

func (b *localBed) sweep() error { return b.d.Sweep(context.Background()) }

func (b *localBed) data(name string) string { return filepath.Join(b.root, name, "data") }

// write writes nothing through a link that a hand put in the place of data: the mark would be another guest's.
func (b *localBed) write(name string, m mark) bool {
	info, err := os.Lstat(b.data(name))
	return err == nil && info.IsDir() && os.WriteFile(filepath.Join(b.data(name), string(m)), []byte(m+"\n"), 0o600) == nil
}

// file finds the file of a mark, which may have been renamed.
func (b *localBed) file(name string, m mark) string {
	for _, path := range []string{string(m), string(m) + ".renamed"} {
		if _, err := os.Lstat(filepath.Join(b.data(name), path)); err == nil {
			return filepath.Join(b.data(name), path)
		}
	}
	return ""
}

func (b *localBed) erase(name string, m mark) bool {
	path := b.file(name, m)
	return path != "" && os.Remove(path) == nil
}

func (b *localBed) rename(name string, m mark) bool {
	path := b.file(name, m)
	return path != "" && os.Rename(path, filepath.Join(b.data(name), string(m)+".renamed")) == nil
}

var inJSON = map[string]*regexp.Regexp{
	"uuid":  regexp.MustCompile(`"uuid":"([^"]*)"`),
	"inode": regexp.MustCompile(`"inode":(\d+)`),
	"pid":   regexp.MustCompile(`"pid":(\d+)`),
	"ticks": regexp.MustCompile(`"start_ticks":(\d+)`),
	"until": regexp.MustCompile(`"until":"([^"]*)"`),
	"name":  regexp.MustCompile(`"name":"([^"]*)"`),
	"what":  regexp.MustCompile(`"what":"([^"]*)"`),

	"memory":    regexp.MustCompile(`"memory_mib":(\d+)`),
	"protected": regexp.MustCompile(`"protected":(true|false)`),
}

// member reads one member of a small JSON file without the driver's help.
func member(path, name string) string {
	text, err := os.ReadFile(path)
	found := inJSON[name].FindSubmatch(text)
	if err != nil || found == nil {
		return ""
	}
	return string(found[1])
}

func (b *localBed) holder(name string) string { return lifeIn(filepath.Join(b.root, name)) }

// lifeIn is which guest a directory has. A step that is tried again may make two of one
// uuid, in directories of their own.
func lifeIn(dir string) string {
	file := filepath.Join(dir, "guest.json")
	if member(file, "uuid") == "" {
		return ""
	}
	return member(file, "uuid") + ":" + member(file, "inode")
}

// holdings reads every file of every guest, in its place and in the trash. Parts of
// guests in the trash do not count: the gate cannot bring them back.
func (b *localBed) holdings() (map[item]where, error) {
	out := map[item]where{}
	live, err := os.ReadDir(b.root)
	if err != nil {
		return nil, err
	}
	for _, e := range live {
		if op.CheckName(e.Name()) == nil {
			err = errors.Join(err, b.collect(out, filepath.Join(b.root, e.Name()), where{name: e.Name()}))
		}
	}
	trash := filepath.Join(b.root, ".trash")
	records, e := os.ReadDir(trash)
	err = errors.Join(err, e)
	for _, r := range records {
		record := filepath.Join(trash, r.Name())
		id, ok := strings.CutSuffix(record, ".json")
		if !ok || member(record, "what") != "guest" {
			continue
		}
		until, e := time.Parse(time.RFC3339Nano, member(record, "until"))
		err = errors.Join(err, e)
		if _, e := os.Lstat(id); e == nil {
			err = errors.Join(err, b.collect(out, id, where{name: member(record, "name"), trash: true, until: until}))
		}
	}
	return out, errors.Join(err, b.bad)
}

// collect reads what one guest's directory holds.
func (b *localBed) collect(out map[item]where, dir string, w where) error {
	holder := lifeIn(dir)
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		part, rest, inside := strings.Cut(rel, "/")
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!e.Type().IsRegular() || !inside || e.Name() == ".hides") {
			return nil
		}
		if err != nil {
			return err
		}
		if part == "data.aside" { // a hand put a link in its place
			part = "data"
		}
		if part == "snapshots" {
			name, _, _ := strings.Cut(rest, "/")
			part = "snapshot " + name
		}
		text, err := os.ReadFile(path)
		if m := mark(strings.TrimSpace(string(text))); err == nil && m != "" {
			if filepath.Base(path) == ".stolen" {
				return lossOf("files", "a guest's program reached files of the gate: %.80q", text)
			}
			out[item{holder, part, m}] = w
		}
		return err
	})
}

// settle waits until each program that runs says that it came to its end.
func (b *localBed) settle() error {
	files, err := filepath.Glob(filepath.Join(b.root, "*", "run.json"))
	for _, file := range files {
		pid := b.process(file)
		if pid == 0 {
			continue
		}
		ran := filepath.Join(filepath.Dir(file), "data*", ".ran-"+strconv.Itoa(pid)) // a hand may have put its data aside
		limit := time.After(patience)
		for {
			if found, _ := filepath.Glob(ran); len(found) > 0 || b.process(file) == 0 || forker.Up(filepath.Join(filepath.Dir(file), "data")) {
				break
			}
			select {
			case <-limit:
				return fmt.Errorf("the program %d of %s does not come to its end", pid, file)
			case <-time.After(200 * time.Microsecond):
			}
		}
	}
	return err
}

// process is the pid of a run file whose process is still that one, 0 otherwise.
func (b *localBed) process(file string) int {
	pid, err := strconv.Atoi(member(file, "pid"))
	stat, e := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || e != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[19] != member(file, "ticks") {
		return 0
	}
	return pid
}

// close ends every process that the guests still have. A guest whose stop went wrong may have no run file any more.
func (b *localBed) close() {
	must(b.t, b.forks.end(filepath.Join(b.root, "*", "data"), filepath.Join(b.root, ".trash", "*", "data")))
	for _, pattern := range []string{"*", ".trash/*"} {
		files, _ := filepath.Glob(filepath.Join(b.root, pattern, "run.json"))
		for _, file := range files {
			if pid := b.process(file); pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	for _, pid := range processesOf(func(uid uint32) bool { return uid != 0 && b.uids.First <= uid && uid <= b.uids.Last }) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	b.giveBack()
}

func (*localBed) kind() string        { return "guest" }
func (*localBed) targets() []string   { return nil }
func (*localBed) templates() []string { return nil }
func (*localBed) newDisk() string     { return "d0" }
func (*localBed) making() op.Params   { return op.Params{} }

// commands has probes and hides where a guest has a uid of its own. As the daemon's own user a program may chmod the gate's
// directory, and no stop can prove that it left no process.
func (b *localBed) commands() []string {
	all := []string{"", keeps, purges, fills, probes, hides}
	if b.uids == (local.UIDRange{}) {
		all = all[:len(all)-2]
	}
	return all
}

func (*localBed) free(string, [5]uint8) op.Params { return op.Params{} }
