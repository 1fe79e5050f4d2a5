package fsck_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
)

// withTexts adds entries of version 1 to the log of a copy, with right numbers, links,
// hashes and a right head. members is what an entry has beside these.
func withTexts(t *testing.T, path string, members ...string) string {
	path = copied(t, path)
	s := openStore(t, path)
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		for _, m := range members {
			body := fmt.Sprintf(`{"seq":%d,"time":"2026-03-01T12:00:00Z",%s,"prev":%q}`, head.Seq+1, m, head.Hash)
			sum := sha256.Sum256([]byte(body))
			_, err := tx.Exec(`INSERT INTO audit(seq, body, hash) VALUES(?, ?, ?)`, head.Seq+1, []byte(body), sum[:])
			if err != nil {
				return err
			}
			head = audit.Head{Seq: head.Seq + 1, Hash: fmt.Sprintf("%x", sum)}
		}
		return audit.Seal(tx)
	}))
	require.NoError(t, s.Close())
	return path
}

// TestEntriesOfVersion1ThatCannotBe: the checks of parts hold for what version 1 has
// in words and in digest.
func TestEntriesOfVersion1ThatCannotBe(t *testing.T) {
	t.Parallel()
	f := workday(t)
	require.NoError(t, f.store.Close())
	const gate = `,"gate":"` + string(testGate) + `"`
	for name, c := range map[string]struct {
		members []string
		want    fsck.Problem
	}{
		"no registration": {[]string{`"kind":"agent-registered","by":"uid:1000","detail":"x: process 7"`},
			fsck.Problem{Rule: "audit-log", Detail: "no registration"}},
		"a name that is taken": {[]string{`"kind":"agent-registered","by":"uid:1000","detail":"builder#60: process 7"`},
			fsck.Problem{Rule: "agents", Where: "builder#60", Detail: "a name that builder#1 has"}},
		"ended without a beginning": {[]string{`"kind":"agent-ended","by":"gate","detail":"x#60: its process ended"`},
			fsck.Problem{Rule: "agents", Where: "x#60", Detail: "none that it began"}},
		"registered, and no row": {[]string{`"kind":"agent-registered","by":"uid:1000","detail":"x#60: a token","digest":"00"`},
			fsck.Problem{Rule: "agents", Where: "x#60", Detail: "there is no row of it"}},
		"a set without a digest": {[]string{`"kind":"desired-put","detail":"web"`},
			fsck.Problem{Rule: "audit-log", Detail: "does not name a set and its digest"}},
		"a set without a row": {[]string{`"kind":"desired-put","detail":"web sha256:00"`},
			fsck.Problem{Rule: "desired-sets", Where: "set web", Detail: "there is no row of it"}},
		"two keys": {[]string{`"kind":"keyed","detail":"a"` + gate, `"kind":"keyed","detail":"b"` + gate},
			fsck.Problem{Rule: "audit-log", Detail: "made itself another key"}},
		"a list of signers without a row": {[]string{`"kind":"rotated","epoch":7,"digest":"00","detail":"init"`},
			fsck.Problem{Rule: "trust-epochs", Detail: "the log tells of a later one"}},
		"output without a row": {[]string{
			`"kind":"succeeded","job":"j1","step":"j1.1","class":"benign","digest":"` + fmt.Sprintf("%064d", 1) + `"`},
			fsck.Problem{Rule: "outputs", Where: "j1.1", Detail: "that is not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := check(t, withTexts(t, f.path, c.members...))
			require.True(t, slices.ContainsFunc(r.Problems, func(p fsck.Problem) bool {
				return p.Rule == c.want.Rule && strings.Contains(p.Where, c.want.Where) &&
					strings.Contains(p.Detail, c.want.Detail)
			}), "%+v", r.Problems)
		})
	}
	sound(t, withTexts(t, f.path, `"kind":"desired-put","detail":"web sha256:00"`, `"kind":"desired-deleted","detail":"web"`))
}
