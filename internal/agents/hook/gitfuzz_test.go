package hook

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzGitPrintsChanges: whatever stands where git's raw format should, it is
// read whole or refused, and no path is lost or made up.
func FuzzGitPrintsChanges(f *testing.F) {
	const one = ":100644 160000 1111111111111111111111111111111111111111 2222222222222222222222222222222222222222 T\x00a\x00"
	f.Add(one)
	f.Add(one + "::100644 100644 000000 1 2 3 MM\x00b\n\xff\x00")
	f.Add(one[:len(one)-1])
	f.Add(":::: \x00\x00")
	f.Fuzz(func(t *testing.T, text string) {
		c := newChanges()
		if c.read(strings.NewReader(text)) != nil {
			return
		}
		fields := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
		if text == "" {
			fields = nil
		}
		require.Zero(t, len(fields)%2)
		want := map[string]bool{}
		for i := 1; i < len(fields); i += 2 {
			want[fields[i]] = true
		}
		require.Len(t, c.byPath, len(want))
		for path := range want {
			require.Contains(t, c.byPath, path)
		}
	})
}

// FuzzRefsOfAPush: what is read has object names alone, which no option of
// git's is.
func FuzzRefsOfAPush(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add("refs/heads/a " + id + " refs/heads/a " + zero + "\n")
	f.Add("(delete) " + zero + " refs/heads/a " + id + "\n")
	f.Add("refs/heads/a --all refs/heads/a " + zero)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := updates(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, u := range list {
			require.True(t, isObjectID(u.local) && !isZero(u.local))
			require.True(t, u.remote == "" || isObjectID(u.remote) && !isZero(u.remote))
		}
	})
}
