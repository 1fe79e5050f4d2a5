package proc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// FuzzStat: with any program name, the numbers are the process' own. A file that the kernel
// would not write is an error.
func FuzzStat(f *testing.F) {
	f.Add("bash", 7, 1, 7, uint64(99), []byte("7 (bash) S 1"))
	f.Add("a) R 1 1 1 (b", 7, 1, 7, uint64(99), []byte(") ("))
	f.Add("x\n8 (y) S 2", 7, 1, 7, uint64(1<<63), []byte("7 (a) S x 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9"))
	f.Fuzz(func(t *testing.T, name string, pid, parent, session int, start uint64, raw []byte) {
		line := fmt.Appendf(nil, "%d (%s) S %d %d %d 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 1 2 3\n", pid, name, parent, session, session, start)
		p := must.Get(parseStat(line))(t)
		require.Equal(t, Process{PID: pid, Parent: parent, Session: session, Start: start}, p)
		if p, err := parseStat(raw); err == nil {
			require.Contains(t, string(raw), fmt.Sprint(p.Start), "a start time from nowhere")
		}
	})
}

// FuzzStatus: the uids come from the kernel's line. No program name is taken for that line.
func FuzzStatus(f *testing.F) {
	f.Add([]byte("Name:\tbash\nUid:\t1\t2\t3\t4\nNSpid:\t9\n"))
	f.Add([]byte("Uid:\t1\t1\t1\t1\nNSpid:\t9\t1\n"))
	f.Add([]byte("Uid: 4294967296 4294967296 0 0\nNSpid: 1\n"))
	f.Add([]byte("Uid:\nNSpid:\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p Process
		if p.parseStatus(raw) != nil {
			return
		}
		if text := string(raw); p.OneUID {
			require.Contains(t, text, fmt.Sprint(p.UID))
		}
		own := append([]byte("Name:\tUid:\t0\t0\t0\t0\n"), raw...) // the kernel escapes a line feed in a name
		var q Process
		require.NoError(t, q.parseStatus(own))
		require.Equal(t, p, q)
	})
}
