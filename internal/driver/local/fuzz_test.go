package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// FuzzGuestFile: guest.json is read whole or refused. If it is written again, it reads as the
// same.
func FuzzGuestFile(f *testing.F) {
	f.Add([]byte(soundGuestFile))
	f.Add([]byte(strings.Replace(soundGuestFile, `"protected":true,`, "", 1)))
	f.Add([]byte(strings.Replace(soundGuestFile, `"b-1"`, `"../b"`, 1)))
	f.Add([]byte(strings.Replace(soundGuestFile, `"prod`, `"\ud800`, 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSpec(b)
		if err != nil {
			return
		}
		require.NoError(t, checkBirth(s.UUID))
		require.False(t, s.Memory < 0 || s.CPUs < 0)
		again := must.Get(s.encode())(t)
		same := must.Get(parseSpec(again))(t, "%s", again)
		require.True(t, s.CreatedAt.Equal(same.CreatedAt))
		s.CreatedAt = same.CreatedAt
		require.Equal(t, s, same)
		id := trashName("web-1", s.incarnation())
		require.NoError(t, component(id), "its place in the trash is one name")
		require.LessOrEqual(t, len(id+recordExt), 255)
	})
}

// FuzzSmallFiles: a run file and a trash record are read whole through the file system, or the
// read fails.
func FuzzSmallFiles(f *testing.F) {
	f.Add([]byte(`{"pid":7,"start_ticks":9,"boot_id":"b","started_at":"2026-03-01T12:00:00Z","command":"web","confined":true,"memory":"none","cpus":"none"}`))
	f.Add([]byte(`{"name":"web","incarnation":"b-1:7:9","what":"guest","destroyed_at":"2026-03-01T12:00:00Z","until":"2026-03-02T12:00:00Z"}`))
	f.Add([]byte(`{"pid":1,"start_ticks":9,"boot_id":"b"}`))
	f.Add([]byte(`{"name":"../web","what":"guest","until":"2026-03-02T12:00:00Z"}`))
	f.Add([]byte(`null`))
	at := f.TempDir()
	root := must.Get(openDir(at))(f)
	f.Cleanup(root.close)
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(at, runFileName), b, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(at, "x"+recordExt), b, 0o600))
		if r, err := readRunFile(root); err == nil {
			require.NotNil(t, r)
			require.True(t, r.PID > 1 && r.Ticks > 0 && r.BootID != "", "a process that could be another's: %+v", r)
		}
		if rec, err := (&Driver{trash: root}).record("x"); err == nil {
			require.NoError(t, op.CheckName(rec.Name))
			require.False(t, rec.Until.IsZero(), "what is never due, or at once")
		}
	})
}

// FuzzMounts: a mount is found at any path, also at one that looks like an escape. A table that
// cannot be read is an error, not an empty table.
func FuzzMounts(f *testing.F) {
	f.Add("/srv/guests/web/data", []byte("36 35 98:0 / /mnt rw - ext3 /dev/root rw\n"))
	f.Add("/srv/a b\\040c\n\t", []byte("36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n"))
	f.Add("/\\", []byte("\n"))
	f.Fuzz(func(t *testing.T, path string, raw []byte) {
		if strings.Contains(path, "\x00") {
			return
		}
		line := "36 35 98:0 / " + strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path) + " rw - ext3 /dev/root rw\n"
		points := must.Get(mountPoints([]byte(line)))(t)
		require.Equal(t, []string{path}, points)
		points, err := mountPoints(append([]byte(line), raw...))
		if err != nil {
			return
		}
		require.Contains(t, points, path, "a mount is lost beside others")
		require.Len(t, points, 1+len(strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n"))-b2i(len(raw) == 0))
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
