package audit

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
)

// FuzzEdge: a stored edge is one of a tree of that size, or it is ignored. In both
// cases the next entry continues from it or fails.
func FuzzEdge(f *testing.F) {
	e := &edge{}
	for i := range 7 {
		_, err := e.add(tlog.RecordHash([]byte{byte(i)}))
		require.NoError(f, err)
		f.Add(e.size, e.encode())
	}
	f.Add(int64(0), []byte{})
	f.Add(int64(-1), make([]byte, 64*tlog.HashSize))
	f.Add(int64(8), e.encode())
	f.Fuzz(func(t *testing.T, size int64, stored []byte) {
		e := decodeEdge(size, stored)
		if e == nil || size < 0 {
			return // the database gives the size as a number
		}
		require.Len(t, e.hashes, bits.OnesCount64(uint64(size)))
		require.Equal(t, string(stored), string(e.encode()))
		if size > 1<<40 {
			return
		}
		_, err := e.add(tlog.RecordHash([]byte("next")))
		require.NoError(t, err)
		require.Equal(t, size+1, e.size)
		_, err = e.root()
		require.NoError(t, err)
		require.NotNil(t, decodeEdge(e.size, e.encode()))
	})
}
