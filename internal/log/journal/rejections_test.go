package journal_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// rejected adds a rejection of a request of its own.
func rejected(t testing.TB, tx *store.Tx, wish, reason string, at time.Time, who ...op.Requester) op.RequestID {
	t.Helper()
	id := op.RequestID{Job: add(t, tx, who[0], step(0, 0, op.StateRejected)), Index: 1}
	s := must.Get(journal.ReadStep(tx, id))(t)
	require.NoError(t, journal.AddRequest(tx, op.Request{ID: id, Step: s, Payload: []byte("{}"), Nonce: id.String(), CreatedAt: at, IssuedAt: at, ExpiresAt: at}))
	for _, r := range who {
		require.NoError(t, journal.AddRejection(tx, journal.Rejection{Who: r.String(), Caller: r.Payer(), Wish: wish, Reason: journal.DigestReason(reason),
			Rejected: op.Rejected{Request: id, By: []string{"alice", "bob"}, Words: "no", At: at}}))
	}
	return id
}

// TestARejectionOfAnEarlierProgramIsFound: its row has another digest of the same words.
func TestARejectionOfAnEarlierProgramIsFound(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		id := rejected(t, tx, "w", "Not needed.", now, uid)
		_, err := tx.Exec(`UPDATE rejections SET reason = ? WHERE job = ?`, journal.EarlierDigest("Not needed."), int64(id.Job))
		require.NoError(t, err)
		for reason, found := range map[string]bool{"Not  needed.": true, "": true, "not needed": false} {
			_, ok := must.Two(journal.RejectionAfter(tx, "uid:1000", "w", reason, now.Add(-1)))(t)
			require.Equal(t, found, ok, reason)
		}
	})
}

func TestARejectionIsFoundByWishCallerReasonAndTime(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		rejected(t, tx, "w", "x", now, uid)
		last := rejected(t, tx, "w", "x", now.Add(time.Second), uid, hub)
		for _, c := range []struct {
			caller, wish, reason string
			after                time.Duration
			found                bool
		}{
			{"uid:1000", "w", "x", 0, true},
			{"uid:1000", "w", "\tx ", time.Second - 1, true},
			{"uid:1000", "w", "x", time.Second, false},
			{"desired:fleet", "w", "x", 0, true},
			{"uid:1001", "w", "x", 0, false},
			{"uid:1000", "v", "x", 0, false},
			{"uid:1000", "w", "X.", 0, true},
			{"uid:1000", "w", "", 0, true},
			{"uid:1000", "w", " ...", 0, true},
			{"uid:1001", "w", "", 0, false},
			{"uid:1000", "w", "x y", 0, false},
			{"uid:1000", "w", "xy", 0, false},
			{"uid:1000", "w", "\u00e9", 0, false},
			{"uid:1000", "w", "\U0001f600", 0, false},
		} {
			r, ok := must.Two(journal.RejectionAfter(tx, c.caller, c.wish, c.reason, now.Add(c.after)))(t)
			require.Equal(t, c.found, ok, "%+v", c)
			if ok {
				require.Equal(t, op.Rejected{Request: last, By: []string{"alice", "bob"}, Words: "no", At: now.Add(time.Second)}, r.Rejected)
			}
		}
		require.True(t, must.Get(journal.HasRejections(tx, "uid:1000", now))(t))
		require.False(t, must.Get(journal.HasRejections(tx, "uid:1000", now.Add(time.Second)))(t))
	})
}

func TestAClockThatIsSetBackTakesRejectionsAlong(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		rejected(t, tx, "w", "old", now.Add(-time.Hour), uid)
		rejected(t, tx, "w", "ahead", now.Add(1000*time.Hour), uid)
		require.NoError(t, journal.RejectedAtLatest(tx, now))
		at := func(reason string) time.Time {
			r, ok, err := journal.RejectionAfter(tx, "uid:1000", "w", reason, time.Time{})
			require.NoError(t, err)
			require.True(t, ok)
			return r.At
		}
		require.Equal(t, now, at("ahead"))
		require.Equal(t, now.Add(-time.Hour), at("old"))
	})
}

func TestOldRejectionsAreForgotten(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		for i := range 5 {
			rejected(t, tx, "w", "x", now.Add(time.Duration(i)*time.Second), uid)
		}
		left := func() int {
			n, _, err := journal.RejectionsOf(tx, "w", op.RequestID{})
			require.NoError(t, err)
			return n
		}
		require.NoError(t, journal.ForgetRejections(tx, now.Add(3*time.Second), 2))
		require.Equal(t, 3, left(), "at most so many at once")
		require.NoError(t, journal.ForgetRejections(tx, now.Add(3*time.Second), 2))
		require.Equal(t, 2, left(), "those at the time stay")
	})
}

// TestReasonsOfOlderJobs: a job's reason is its only requester's. Of several it is not known which one gave it.
func TestReasonsOfOlderJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	list := []store.Migration{{Version: 1, Name: "journal", SQL: journal.Schema + journal.SchemaPeople + journal.SchemaBefore},
		{Version: 2, Name: "rejections", SQL: journal.SchemaRejections}}
	//fsck:none it is brought up to date below, and checked then
	s := must.Get(store.Open(t.Context(), path, store.Options{Migrations: list[:1]}))(t)
	update(t, s, func(tx *store.Tx) {
		for _, sql := range []string{
			`INSERT INTO jobs(id, reason, created_at) VALUES(1, 'alone', 1), (2, 'of one', 1)`,
			`INSERT INTO requesters(job, who, source, uid, pid, agent, setname) VALUES(1, 'uid:7', 'api', 7, 1, '', ''),
				(2, 'uid:7', 'api', 7, 1, '', ''), (2, 'uid:8', 'api', 8, 1, '', '')`,
		} {
			must.Get(tx.Exec(sql))(t)
		}
	})
	require.NoError(t, s.Close())
	update(t, fscktest.Open(t, path, store.Options{Migrations: list}), func(tx *store.Tx) {
		_, one, err := journal.Reasons(tx, 1)
		require.NoError(t, err)
		require.Equal(t, []op.Reason{{By: "uid:7", Text: "alone"}}, one)
		_, two, err := journal.Reasons(tx, 2)
		require.NoError(t, err)
		require.Equal(t, []op.Reason{{By: "uid:7"}, {By: "uid:8"}}, two)
	})
}
