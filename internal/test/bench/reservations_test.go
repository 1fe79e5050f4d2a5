package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/reserve"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/people/pubkey"
)

// TestTheOthersAreThere: as many as the row says, each in force, and no two of
// them overlap.
func TestTheOthersAreThere(t *testing.T) {
	b := tiny(t)
	dir, err := b.dir("gate")
	require.NoError(t, err)
	at, err := b.scope("checkout")
	require.NoError(t, err)
	o := &others{place: at}
	for _, n := range []int{0, 3, 120} {
		require.NoError(t, o.upTo(b.ctx, dir, n))
		h, err := openHistory(b.ctx, dir)
		require.NoError(t, err)
		require.NoError(t, h.store.View(b.ctx, func(tx *store.Tx) error {
			var got, scopes int
			require.NoError(t, tx.QueryRow(`SELECT count(*), count(DISTINCT scope) FROM reservations WHERE expires_at > ?`,
				now().UnixNano()).Scan(&got, &scopes))
			require.Equal(t, n, got)
			require.LessOrEqual(t, scopes, 1)
			problems, err := reserve.Verify(tx, now())
			require.Empty(t, problems)
			return err
		}))
		require.NoError(t, h.close())
	}
}

// TestTheHistoryOfOthersIsSound has fsck look at the reservations that the bench writes
// into the state of a real gate, before and after the gate writes its own.
func TestTheHistoryOfOthersIsSound(t *testing.T) {
	b := tiny(t)
	dir := filepath.Join(b.Dir, "state")
	pub := filepath.Join(b.Dir, "alice.pub")
	require.NoError(t, os.WriteFile(pub, []byte(b.keys.plain.public()), 0o600))
	_, err := life.Init(b.ctx, life.InitOptions{StateDir: dir, Host: host,
		Operators: []pubkey.Arg{{Path: pub, Principal: b.keys.plain.principal}}})
	require.NoError(t, err)
	at, err := b.scope("checkout")
	require.NoError(t, err)
	o := &others{place: at}
	for _, n := range []int{0, 3, 20} {
		require.NoError(t, o.upTo(b.ctx, dir, n))
		require.NoError(t, b.consistent(dir))
	}
	_, err = b.pairsInside(dir, at)
	require.NoError(t, err)
	require.NoError(t, b.consistent(dir))
}

func TestPairsWithoutTheSocket(t *testing.T) {
	b := tiny(t)
	dir, err := b.dir("gate")
	require.NoError(t, err)
	at, err := b.scope("checkout")
	require.NoError(t, err)
	rate, err := b.pairsInside(dir, at)
	require.NoError(t, err)
	require.Positive(t, rate)
}

func TestARequestOfAnAgent(t *testing.T) {
	h := &holding{token: "secret"}
	claim, err := h.claim(api.Reserve{Patterns: []string{"a"}})
	require.NoError(t, err)
	require.Contains(t, string(claim), "POST /v1/reservations HTTP/1.1\r\nGated-Agent-Token: secret\r\nHost: gated\r\n")
	require.Equal(t, "DELETE /v1/reservations/r1 HTTP/1.1\r\nGated-Agent-Token: secret\r\nHost: gated\r\n\r\n",
		string(h.release("r1")))
	require.Equal(t, "r12", between([]byte(`{"id":"r12","scope":"/a"}`), `"id":"`))
	require.Empty(t, between([]byte(`{}`), `"id":"`))
}

func TestAToolCallIsOne(t *testing.T) {
	require.Contains(t, string(toolCall("/co", "/co/a.go")), `"file_path":"/co/a.go"`)
}
