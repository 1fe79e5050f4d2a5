package inotify

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func event(wd int32, mask uint32, name string) []byte {
	var b []byte
	b = binary.NativeEndian.AppendUint32(b, uint32(wd))
	b = binary.NativeEndian.AppendUint32(b, mask)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
	return append(b, name...)
}

// FuzzEvents: no bytes in the place of the kernel's events do harm. Each announced change is
// known, or known to be missing.
func FuzzEvents(f *testing.F) {
	f.Add(event(1, unix.IN_CLOSE_WRITE, "a.yaml\x00\x00"))
	f.Add(append(event(1, unix.IN_MODIFY, "a.yaml\x00"), event(1, unix.IN_MOVED_FROM, "a.yaml\x00")...))
	f.Add(event(-1, unix.IN_Q_OVERFLOW, ""))
	f.Add(event(2, unix.IN_CLOSE_WRITE, "other"))
	f.Add(event(1, unix.IN_DELETE_SELF, "")[:12])
	f.Add(binary.NativeEndian.AppendUint32(event(1, unix.IN_DELETE, "")[:12], 1<<31))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &Watch{about: func(string) bool { return true }, changed: make(chan struct{}, 1), wd: 1,
			events: map[string]bool{}, open: map[string]bool{}, gone: map[string]bool{}}
		w.parse(b)
		told := len(w.changed) > 0
		require.Equal(t, told, w.lost || len(w.events) > 0, "nobody was told")
		w.parse(event(1, unix.IN_CLOSE_WRITE, "last.yaml\x00"))
		require.True(t, w.lost || w.events["last.yaml"], "a change is lost without a word")
	})
}
