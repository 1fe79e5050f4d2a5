package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/hostgate"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/test/must"
)

const machineA, machineB = "0123456789abcdef0123456789abcdef", "ffffffffffffffff0123456789abcdef"

// on returns options for a machine with the given machine-id file content.
func on(t *testing.T, machineID string) Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine-id")
	require.NoError(t, os.WriteFile(path, []byte(machineID), 0o600))
	return Options{MachineID: []string{path + ".none", path}}
}

func openStore(t *testing.T, d *Dir) *store.Store {
	t.Helper()
	return fscktest.Open(t, d.Database(), store.Options{Migrations: []store.Migration{{Version: 1, Name: "identity", SQL: Schema}}})
}

// made is a state directory with a bound database, closed again.
func made(t *testing.T, o Options) (dir string, id Identity) {
	t.Helper()
	above := t.TempDir()
	require.NoError(t, os.Chmod(above, 0o755)) // whatever the umask left
	dir = filepath.Join(above, "state")
	d := must.Get(Init(dir, o))(t)
	s := openStore(t, d)
	id = Identity{Gate: NewGateID(), Host: "pve1"}
	require.NoError(t, d.Bind(t.Context(), s, id))
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
	return dir, id
}

// start does what a daemon does first, and undoes it.
func start(t *testing.T, dir string, o Options) (Identity, error) {
	t.Helper()
	d, err := Open(dir, o)
	if err != nil {
		return Identity{}, err
	}
	defer func() { require.NoError(t, d.Close()) }()
	s := openStore(t, d)
	defer func() { require.NoError(t, s.Close()) }()
	return d.Check(t.Context(), s)
}

// requireRefusal asserts a refusal that says what is wrong and what to do.
func requireRefusal(t *testing.T, err error, code refusal.Code, says string) {
	t.Helper()
	var r *refusal.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, code, r.Code, r.Detail)
	require.Contains(t, r.Detail, says)
	require.NotEmpty(t, r.Hint)
}

func TestInitBindStart(t *testing.T) {
	o := on(t, machineA+"\n")
	dir, id := made(t, o)
	got := must.Get(start(t, dir, o))(t)
	require.Equal(t, id, got)
	require.True(t, got.Gate.Valid())
	require.NotEqual(t, NewGateID(), NewGateID())

	for name, mode := range map[string]os.FileMode{"": 0o700, DatabaseName: 0o600, lockName: 0o600} {
		require.Equal(t, mode, must.Get(os.Stat(filepath.Join(dir, name)))(t).Mode().Perm(), name)
	}
	_, err := Init(dir, o)
	requireRefusal(t, err, refusal.Conflict, "holds a gate already")
	must.Get(start(t, dir, o))(t, "a refused init leaves no lock")
}

func TestInitTakesAnEmptyDirectoryWhateverItsMode(t *testing.T) {
	for _, mode := range []os.FileMode{0o700, 0o755, 0o777} {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, mode))
		d := must.Get(Init(dir, Options{}))(t)
		require.NoError(t, d.Close())
		info := must.Get(os.Stat(dir))(t)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
	used := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(used, "x"), nil, 0o600))
	require.NoError(t, os.Chmod(used, 0o777))
	_, err := Init(used, Options{})
	requireRefusal(t, err, refusal.NotAllowed, "can be changed by others")
}

func TestInitWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o077} {
		old := syscall.Umask(mask)
		dir, _ := made(t, Options{})
		syscall.Umask(old)
		for name, mode := range map[string]os.FileMode{"": 0o700, DatabaseName: 0o600, lockName: 0o600} {
			require.Equal(t, mode, must.Get(os.Stat(filepath.Join(dir, name)))(t).Mode().Perm(), name)
		}
	}
}

// H01.
func TestDirectoriesThatOthersCouldHaveChanged(t *testing.T) {
	chmod := func(name string, mode os.FileMode) func(*testing.T, string, *Options) string {
		return func(t *testing.T, dir string, _ *Options) string {
			require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
			return dir
		}
	}
	linked := func(name string) func(*testing.T, string, *Options) string {
		return func(t *testing.T, dir string, _ *Options) string {
			path, elsewhere := filepath.Join(dir, name), filepath.Join(t.TempDir(), "elsewhere")
			if err := os.Rename(path, elsewhere); !errors.Is(err, os.ErrNotExist) {
				require.NoError(t, err)
			}
			require.NoError(t, os.Symlink(elsewhere, path))
			return dir
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string, o *Options) string // returns where to start
		says   string
	}{
		"directory group-writable": {chmod("", 0o720), "state directory"},
		"directory world-writable": {chmod("", 0o702), "state directory"},
		"database group-writable":  {chmod(DatabaseName, 0o620), "can be changed by others"},
		"database world-writable":  {chmod(DatabaseName, 0o602), "can be changed by others"},
		"lock world-writable":      {chmod(lockName, 0o602), "can be changed by others"},
		"database is a symlink":    {linked(DatabaseName), "symbolic link"},
		"WAL is a symlink":         {linked(DatabaseName + "-wal"), "symbolic link"},
		"lock is a symlink":        {linked(lockName), "symbolic link"},
		"directory is a symlink": {func(t *testing.T, dir string, _ *Options) string {
			link := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Symlink(dir, link))
			return link
		}, "symbolic link"},
		"directory is a file": {func(t *testing.T, dir string, _ *Options) string {
			return filepath.Join(dir, DatabaseName)
		}, "not a directory"},
		"database is a directory": {func(t *testing.T, dir string, _ *Options) string {
			require.NoError(t, os.Remove(filepath.Join(dir, DatabaseName)))
			require.NoError(t, os.Mkdir(filepath.Join(dir, DatabaseName), 0o700))
			return dir
		}, "not an ordinary file"},
		"database has a second name": {func(t *testing.T, dir string, _ *Options) string {
			require.NoError(t, os.Link(filepath.Join(dir, DatabaseName), filepath.Join(dir, "second")))
			return dir
		}, "hard links"},
		"somebody else's": {func(_ *testing.T, dir string, o *Options) string {
			other := uint32(os.Geteuid() + 1)
			o.UID = &other
			return dir
		}, "belongs to uid"},
	} {
		t.Run(name, func(t *testing.T) {
			o := on(t, machineA)
			dir, _ := made(t, o)
			if name == "WAL is a symlink" || name == "database is a directory" {
				storetest.Breaks(t, filepath.Join(dir, DatabaseName), "database")
			}
			at := c.change(t, dir, &o)
			_, err := Open(at, o)
			requireRefusal(t, err, refusal.NotAllowed, c.says)
			_, err = Look(at, o)
			requireRefusal(t, err, refusal.NotAllowed, c.says)
		})
	}
}

// Root would lock the daemon out of what it takes.
func TestWhatIsAnothersIsRunAsItsOwner(t *testing.T) {
	us, root := uint32(64331), uint32(0) // no account has this uid
	daemon, typed := &Dir{path: "/d", options: Options{UID: &us}}, &Dir{path: "/d", options: Options{UID: &root}}
	const (
		other   = math.MaxUint32 - 1
		owners  = "run it as its owner: setpriv --reuid 4294967294 --clear-groups gated ... --state "
		sudo    = "run it as its owner: sudo setpriv --reuid 4294967294 --clear-groups gated ... --state "
		perhaps = "if nobody else could write there, "
		users   = perhaps + "give it to the user who runs the gate (User= of its unit), as root: chown -h USER "
	)
	require.Equal(t, owners+"/d", typed.asOwner(other, "/d"))
	require.Equal(t, users+"/d/gated.db", typed.asOwner(other, "/d/gated.db"), "root may be the wrong owner of the directory")
	require.Equal(t, sudo+"/d; or, "+perhaps+"as root: chown -h 64331 /d", daemon.asOwner(other, "/d"))
	require.Equal(t, perhaps+"as root: chown -h 64331 /d/gated.db", daemon.asOwner(other, "/d/gated.db"), "the directory is ours, and so is its file")
	daemon.path = hostgate.StateDir
	require.Equal(t, sudo+"/var/lib/gated", daemon.asOwner(other, hostgate.StateDir), "it is the host's gate")
	require.Equal(t, "run it as its owner: sudo gated ... --state /var/lib/gated", daemon.asOwner(0, hostgate.StateDir), "who asks may be neither")
	require.Equal(t, users+"/var/lib/gated/gated.db", daemon.asOwner(0, hostgate.StateDir+"/gated.db"))
	daemon.path = "/my d"
	require.Contains(t, daemon.asOwner(0, "/my d"), "chown -h 64331 '/my d'")
}

// An init that was killed leaves an empty database. It is no gate, and init says how to go on; a database with a log may be one.
func TestAnInitThatWasCutOff(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, DatabaseName), nil, 0o600))
	_, err := Init(dir, Options{})
	requireRefusal(t, err, refusal.Conflict, "gated init was cut off")
	require.Contains(t, refusal.As(err).Hint, NeverRan)
	require.NoError(t, os.WriteFile(filepath.Join(dir, DatabaseName+"-wal"), []byte("x"), 0o600))
	_, err = Init(dir, Options{})
	requireRefusal(t, err, refusal.Conflict, "holds a gate already")
}

func TestADatabaseOfAnotherOwnerInOurDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can give a file away; the check is the directory's, tested above for everybody
	}
	o := on(t, machineA)
	dir, _ := made(t, o)
	require.NoError(t, os.Chown(filepath.Join(dir, DatabaseName), 12345, -1))
	_, err := Open(dir, o)
	requireRefusal(t, err, refusal.NotAllowed, "gated.db belongs to uid 12345")
}

func TestNoGate(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	for _, at := range []string{dir, filepath.Join(dir, "none")} {
		_, err := Open(at, Options{})
		requireRefusal(t, err, refusal.UnknownTarget, "there is no gate in")
	}
	require.Empty(t, must.Get(os.ReadDir(dir))(t))

	kept := filepath.Join(dir, "gated.db"+BeforeRestore+"-2")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	_, err := Open(dir, Options{})
	requireRefusal(t, err, refusal.UnknownTarget, "gated.db.before-restore-2")
	require.NotContains(t, refusal.As(err).Hint, "gated restore", "without settings a restore is refused")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gated.yaml"), nil, 0o600))
	_, err = Open(dir, Options{})
	require.Contains(t, refusal.As(err).Hint, "gated restore FILE --state "+dir)
	require.NotContains(t, refusal.As(err).Hint, "gated init")
}

// H06.
func TestASecondProcessIsRefusedAndToldWhoIsFirst(t *testing.T) {
	o := on(t, machineA)
	dir, _ := made(t, o)
	exe := must.Get(os.Executable())(t)
	first := exec.CommandContext(t.Context(), exe, "-test.run=^TestHoldTheLock$")
	first.Env = append(os.Environ(), "GATED_TEST_HOLD="+dir)
	first.Stderr = os.Stderr
	stdin := must.Get(first.StdinPipe())(t)
	stdout := must.Get(first.StdoutPipe())(t)
	require.NoError(t, first.Start())
	line := must.Get(bufio.NewReader(stdout).ReadString('\n'))(t)
	require.Equal(t, "held\n", line)

	_, err := Open(dir, o)
	requireRefusal(t, err, refusal.Conflict, fmt.Sprintf("the process with pid %d uses", first.Process.Pid))
	_, err = Init(dir, o)
	requireRefusal(t, err, refusal.Conflict, "uses the state directory")
	seen := must.Get(Look(dir, o))(t, "looking needs no lock")
	require.NoError(t, seen.Close())

	require.NoError(t, first.Process.Kill())
	_, err = start(t, dir, o) // at once: the process may not have ended yet
	require.NoError(t, err, "the lock of a dead process is no lock")
	_ = stdin.Close()
	_ = first.Wait() // killed
}

// TestHoldTheLock is the other process of the test above.
func TestHoldTheLock(t *testing.T) {
	dir := os.Getenv("GATED_TEST_HOLD")
	if dir == "" {
		return
	}
	d := must.Get(Open(dir, Options{}))(t)
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	require.NoError(t, d.Close())
}
