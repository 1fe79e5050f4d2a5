package archive_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/log/archive"
)

// TestADirectoryInMemory: what left a database on a disk is not kept there, whether the directory exists or not.
func TestADirectoryInMemory(t *testing.T) {
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs("/dev/shm", &st), "Linux has a tmpfs there")
	require.EqualValues(t, unix.TMPFS_MAGIC, st.Type)
	memory, err := os.MkdirTemp("/dev/shm", "gated-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(memory)) })
	disk, err := os.Getwd()
	require.NoError(t, err)
	for _, path := range []string{memory, filepath.Join(memory, "archive")} {
		err := archive.NewDir(path).Lasting(disk)
		require.ErrorIs(t, err, refusal.NotAllowed)
		require.ErrorContains(t, err, "tmpfs")
		require.NoError(t, archive.NewDir(path).Lasting(memory), "a boot loses the database, too")
	}
	require.NoError(t, archive.NewDir(filepath.Join(disk, "none")).Lasting(disk))
}

// TestADirectoryOfGuests: what guests may write to has no segment files.
func TestADirectoryOfGuests(t *testing.T) {
	for path, ok := range map[string]bool{"/srv/guests": false, "/srv/guests/web/archive": false, "/srv/guests/": false, "/srv/x/../guests/a": false,
		"/srv": true, "/srv/guests2": true, "/srv/archive": true, "/srv/..guests": true} {
		err := archive.NewDir(path).Outside("/srv/guests")
		require.Equal(t, ok, err == nil, path)
		if !ok {
			require.ErrorIs(t, err, refusal.NotAllowed)
		}
	}
	require.Error(t, archive.NewDir("/srv/guests/..a").Outside("/srv/guests"), "a name that begins with two dots is below")
}
