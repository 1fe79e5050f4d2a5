package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// deedsArg is the name under which this program does one of each kind of call.
const deedsArg = "deeds"

func TestMain(m *testing.M) {
	MaybeLaunch()
	if len(os.Args) == 3 && os.Args[1] == deedsArg {
		fmt.Print(deeds(os.Args[2]))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// deeds does each kind of call once in dir, and says what each answered.
func deeds(dir string) string {
	var out strings.Builder
	say := func(what string, err error) {
		var errno unix.Errno
		if errors.As(err, &errno) {
			fmt.Fprintln(&out, what, unix.ErrnoName(errno))
		} else {
			fmt.Fprintln(&out, what, err)
		}
	}
	name := filepath.Join(dir, "a")
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT, 0o600)
	say("open", err)
	if err != nil {
		return out.String()
	}
	_, err = unix.Pwrite(fd, []byte("text"), 0)
	say("write", err)
	say("fsync", unix.Fdatasync(fd))
	say("truncate", unix.Ftruncate(fd, 4096))
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	say("mmap", err)
	if err == nil {
		err = unix.Munmap(mem)
	}
	say("close", errors.Join(err, unix.Close(fd)))
	say("rename", unix.Rename(name, name+"b"))
	say("make", unix.Mkdir(filepath.Join(dir, "d"), 0o700))
	say("unlink", unix.Unlink(name+"b"))
	say("elsewhere", os.WriteFile(filepath.Join(filepath.Dir(dir), "elsewhere"), []byte("text"), 0o600))
	return out.String()
}

// watchDeeds starts the deeds behind a filter.
func watchDeeds(t *testing.T, f Fault) (says string, seen int, hit []Call) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.Mkdir(dir, 0o700))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", deedsArg, dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	s := must.Get(Start(cmd, dir, f))(t)
	require.NoError(t, cmd.Wait(), out.String())
	require.NoError(t, s.Wait())
	seen, hit = s.Disarm()
	return out.String(), seen, hit
}

func TestEachCallFailsOnce(t *testing.T) {
	kinds := []Kind{Open, Write, Sync, Truncate, Map, Rename, Make, Unlink}
	said, seen, hit := watchDeeds(t, Fault{})
	require.Equal(t, len(kinds), seen, said)
	require.Empty(t, hit)
	require.Equal(t, len(kinds)+2, strings.Count(said, "<nil>"), said)
	for i, k := range kinds {
		for _, errno := range []unix.Errno{unix.EIO, unix.ENOSPC} {
			said, seen, hit := watchDeeds(t, Fault{Nth: i + 1, Errno: errno})
			require.Len(t, hit, 1)
			require.Equal(t, k, hit[0].Kind)
			require.Contains(t, hit[0].Path, "/in/")
			require.Contains(t, said, k.String()+" "+unix.ErrnoName(errno)+"\n")
			if k != Open { // without which nothing else is done
				require.GreaterOrEqual(t, seen, len(kinds))
				require.Contains(t, said, "elsewhere <nil>")
			}
		}
	}
}

func TestLastingAndOnlyOneKind(t *testing.T) {
	said, _, hit := watchDeeds(t, Fault{Nth: 2, Errno: unix.EIO, Lasting: true})
	require.Len(t, hit, 7, said)
	require.Contains(t, said, "open <nil>")
	require.Contains(t, said, "elsewhere <nil>", "files elsewhere are not watched")
	said, seen, hit := watchDeeds(t, Fault{Nth: 1, Errno: unix.EIO, Lasting: true, Only: Sync})
	require.Equal(t, []Call{{Sync, hit[0].Path}}, hit, said)
	require.Equal(t, 1, seen)
}

// The fault is asked for by the process itself.
func TestControlsFromInside(t *testing.T) {
	must.Fail(Disarm())(t, fs.ErrNotExist, "there is no supervisor here")
	s := &Supervisor{dir: "/d"}
	val, mine := s.asked("/gated-faults/arm/3/5/true/2")
	require.True(t, mine)
	require.Zero(t, val)
	require.Equal(t, Fault{Nth: 3, Errno: unix.EIO, Lasting: true, Only: Sync}, s.fault)
	for range 2 {
		require.Zero(t, s.count(Call{Sync, "/d/a"}))
		require.Zero(t, s.count(Call{Write, "/d/a"}))
	}
	require.Equal(t, unix.EIO, s.count(Call{Sync, "/d/a"}))
	val, mine = s.asked("/gated-faults/disarm")
	require.True(t, mine)
	require.EqualValues(t, Sync, val)
	require.Zero(t, s.count(Call{Sync, "/d/a"}))
	_, mine = s.asked("/gated-faults/arm/x/5/true/2")
	require.False(t, mine, "the kernel then says that there is no such file")
	_, mine = s.asked("/etc/passwd")
	require.False(t, mine)
}
