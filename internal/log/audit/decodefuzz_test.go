package audit

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDecode: an accepted entry is of a version that this program knows. Written in
// version 2, it is the same entry.
func FuzzDecode(f *testing.F) {
	text, err := os.ReadFile("testdata/v1.jsonl")
	require.NoError(f, err)
	for body := range bytes.Lines(text) {
		f.Add(body)
		e, err := Decode(body)
		require.NoError(f, err)
		written, err := e.encode()
		require.NoError(f, err)
		f.Add(written)
	}
	f.Add([]byte(`{"v":3}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Decode(body)
		if err != nil {
			require.Zero(t, e)
			return
		}
		written, err := e.encode()
		require.NoError(t, err)
		again, err := Decode(written)
		require.NoError(t, err)
		twice, err := again.encode()
		require.NoError(t, err)
		require.Equal(t, string(written), string(twice))
		require.Equal(t, e.Parts, again.Parts)
	})
}
