package daemon_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// TestWhereOneMayNotWrite: whoever may connect cannot keep everybody out of
// everything, nor anybody out of what is theirs.
func TestWhereOneMayNotWrite(t *testing.T) {
	w := newInitialised(t)
	if os.Geteuid() != 0 { // there is one uid alone
		w.serve()
		mine := w.actor(nil)
		mine.cannot(refusal.NotAllowed, "reserve / **")
		mine.cannot(refusal.NotAllowed, "scope /")
		mine.does("reserve %s **", w.checkout("repo"))
		return
	}
	const devs = 64321
	nobody := w.serveOthers("")
	repo := w.checkout("repo")
	require.NoError(t, os.Chmod(repo, 0o2775))
	require.NoError(t, os.Chown(repo, 0, devs))
	inDevs := *nobody
	inDevs.Groups = []uint32{64320, devs}
	root, theirs, mate := w.actor(nil), w.actor(nobody), w.actor(&inDevs)
	for _, dir := range []string{"/", filepath.Dir(repo), repo, "/tmp"} {
		theirs.cannot(refusal.NotAllowed, "reserve %s **", dir)
		theirs.cannot(refusal.NotAllowed, "scope %s", dir)
		require.Empty(t, theirs.does("check %s **", dir), "whoever asks may know")
	}
	require.Equal(t, 8, w.refusals("not_allowed"))
	require.Equal(t, "r1", mate.does("reserve %s a", repo))
	require.Equal(t, "s1", mate.does("scope %s", repo))
	require.Equal(t, "r2", root.does("reserve / etc/"))
	require.Equal(t, "s3", root.does("scope /tmp"), "an operator may release anything")
	require.Equal(t, "r1", mate.does("renew r1"))

	// What was somebody's is not theirs for ever.
	require.NoError(t, os.Chmod(repo, 0o2755))
	mate.cannot(refusal.NotAllowed, "renew r1")
	mate.cannot(refusal.NotHolder, "renew r2")
	require.Equal(t, "r1", mate.does("release r1"))
	w.haltSound()
}

// TestUnseenPlaces: of what the daemon cannot see it takes the word of whoever
// owns what it does see, or everybody's if the operator says so.
func TestUnseenPlaces(t *testing.T) {
	w := newInitialised(t)
	if os.Geteuid() != 0 { // there is one uid alone, and nothing that it cannot see in its own
		w.serve()
		gone := filepath.Join(w.checkout("repo"), "gone")
		require.Equal(t, "r1", w.actor(nil).does("imagine %s **", gone))
		return
	}
	nobody := w.serveOthers("")
	gone := filepath.Join(w.checkout("repo"), "gone")
	theirs := w.actor(nobody)
	require.Contains(t, theirs.cannot(refusal.NotAllowed, "imagine %s **", gone), "cannot see")
	require.NoError(t, os.Chown(filepath.Dir(gone), int(nobody.Uid), 0))
	require.Equal(t, "r1", theirs.does("imagine %s **", gone))
	require.NoError(t, os.Chown(filepath.Dir(gone), 0, 0))
	theirs.cannot(refusal.NotAllowed, "renew r1")
	w.halt()
	w.config("reservations: {unseen: allow}\n")
	w.serve()
	require.Equal(t, "r1", theirs.does("renew r1"))
	require.Equal(t, "r2", theirs.does("imagine %s **", filepath.Join(gone, "more")))
	theirs.cannot(refusal.NotAllowed, "reserve / **")
	w.haltSound()
}
