package audit_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// recorded returns the entries of a file, one a line.
func recorded(t *testing.T, name string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

// variant tells entries of one kind apart.
type variant struct {
	kind audit.Kind
	what string // edited, a token, or empty
}

// partsOfV1 has what testdata/v1.jsonl says in the words and the digest of version 1.
var partsOfV1 = map[variant]audit.Parts{
	{kind: audit.Started}: {SignersFile: audit.SignersFile{Epoch: 1, SHA256: "93df4bd75b51302205f3cb3450cef476c10750006359e8685cd0b80f1dd08cea"}},
	{audit.Trusted, "edited"}: {Edited: true,
		SignersFile: audit.SignersFile{Epoch: 1, SHA256: "93df4bd75b51302205f3cb3450cef476c10750006359e8685cd0b80f1dd08cea"}},
	{kind: audit.Trusted}: {SignersFile: audit.SignersFile{Epoch: 1, SHA256: "36a73f20f0a072da220ef751cd805d20f19c5969a1544cb44d6e8c08b52fe62e"}},
	{kind: audit.Rotated}: {SignersFile: audit.SignersFile{Epoch: 2, How: "j8.1",
		SHA256: "5b210ffe2855622cf3a87ccff6ad015b1ea9f6b0bf292879bfe5082667951101"}},
	{kind: audit.Requested}:    {ShownSHA256: "d52eb2442b994b6058c526f3a521e0a2e1e9ad7e205c20f38323bec052fb4074"},
	{kind: audit.Reissued}:     {ShownSHA256: "53e5e0f1aa0decf2eb0484254ff9ef27f6339cd4343cb2842f9876ca5abeeaee"},
	{kind: audit.Succeeded}:    {OutputSHA256: "d117fa006ba9208500b2930ce69cbde436c647afa917cb7396a9bc9111a46dd2"},
	{kind: audit.Failed}:       {OutputSHA256: "f70579cce37a17bd1c4c4061b0beff0fbf58853a2f0c72a14f93c8f30c6b7cec"},
	{kind: audit.Interrupted}:  {OutputSHA256: "741cda0b2efdfdda8840c4c82053a226d6d6d881b8c4311ba1f2c3ba16804d56"},
	{kind: audit.Compensated}:  {Undoes: "j3.2"},
	{kind: audit.DesiredPut}:   {Set: audit.Set{Name: "s", SHA256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}},
	{kind: audit.DesiredGone}:  {Set: audit.Set{Name: "b"}},
	{kind: audit.Restored}:     {Ended: audit.Ended{Registrations: 1, Reservations: 2}},
	{kind: audit.TimeAccepted}: {Ended: audit.Ended{Registrations: 1, Reservations: 1}},
	{kind: audit.Keyed}:        {HeadKey: "gated/92a4442097e7c488463af83cc4d046e3+54b99099+AVSrE85vDLQbstH7PHj5Gh93lKK1tfgYDfh65Yb7X+KH"},
	{kind: audit.AgentRegistered}: {Registration: audit.Registration{ID: 1, Name: "builder", PID: 14222,
		SHA256: "0dabc7c9e1a9b031c237055c77cb957d255b1babef15d3b13c13d54e6c017859"}},
	{audit.AgentRegistered, "a token"}: {Registration: audit.Registration{ID: 1, Name: "builder", Token: true,
		SHA256: "1f1793031d9d6eb9961069cda25bd983221beaa3e59d794167f79b5b7e0f0aae"}},
	{kind: audit.AgentEnded}: {Registration: audit.Registration{ID: 4, Name: "ends"}},
}

// TestEveryKindOfVersion1: each entry that a gate wrote in version 1 has the parts of
// version 2. All other members stay as they were.
func TestEveryKindOfVersion1(t *testing.T) {
	kinds := map[audit.Kind]bool{}
	found := map[variant]bool{}
	for _, body := range recorded(t, "v1.jsonl") {
		e, err := audit.Decode(body)
		require.NoError(t, err)
		v := variant{kind: e.Kind}
		if e.Target != "" && e.Kind == audit.Trusted {
			v.what = "edited"
		}
		if bytes.Contains(body, []byte(": a token")) {
			v.what = "a token"
		}
		require.Equal(t, partsOfV1[v], e.Parts, "%s", body)
		kinds[e.Kind], found[v] = true, true
		require.NotZero(t, e.Seq)
		require.NotZero(t, e.Time)
	}
	require.Len(t, kinds, 40, "a kind that came later has no entry of version 1")
	for v := range partsOfV1 {
		require.True(t, found[v], v)
	}
}

// TestWordsOfVersion1: words that name no subject give no part. The parts of version 2
// have no meaning in an entry of version 1.
func TestWordsOfVersion1(t *testing.T) {
	for body, want := range map[string]audit.Parts{
		`{"kind":"agent-registered","detail":"x: process 7"}`:                  {Registration: audit.Registration{Name: "x", PID: 7}},
		`{"kind":"agent-registered","detail":"x#0: process 7"}`:                {Registration: audit.Registration{Name: "x", PID: 7}},
		`{"kind":"agent-registered","detail":"x#-1: process y"}`:               {Registration: audit.Registration{Name: "x"}},
		`{"kind":"agent-ended","detail":"x#3: process 7","digest":"d"}`:        {Registration: audit.Registration{Name: "x", ID: 3, SHA256: "d"}},
		`{"kind":"desired-put","detail":"web"}`:                                {Set: audit.Set{Name: "web"}},
		`{"kind":"compensated","detail":"j1.2"}`:                               {},
		`{"kind":"restored","detail":"from backup"}`:                           {},
		`{"kind":"restored","detail":"; ended: registrations of agents: x"}`:   {},
		`{"kind":"planned","digest":"d","epoch":3,"detail":"takes back j1.1"}`: {},
		`{"kind":"keyed","head_key":"forged"}`:                                 {},
		`{"kind":"rotated","signers_file":{"epoch":9,"sha256":"forged"}}`:      {},
		`{"kind":"trusted","edited":true,"epoch":1}`:                           {SignersFile: audit.SignersFile{Epoch: 1}},
		`{"v":2,"kind":"rotated","epoch":9,"digest":"forged","detail":"init"}`: {},
		`{"v":2,"kind":"keyed","detail":"forged"}`:                             {},
	} {
		e, err := audit.Decode([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, e.Parts, body)
	}
}

// TestWhatVersion1SaysOfRevokedKeys: each start, and each change of the file, says
// whether keys are revoked. Entries of older programs have the digest of the file
// alone, and the oldest have words.
func TestWhatVersion1SaysOfRevokedKeys(t *testing.T) {
	yes, no := true, false
	const gone = `the revocation file cannot be read, so no signature counts: no key was revoked, and there is no /x, which`
	for name, c := range map[string]struct {
		body string
		want *bool // nil: the entry does not say
	}{
		"a start without keys":           {`{"kind":"started","revokes":false,"revoked":"unreadable"}`, &no},
		"a start with keys":              {`{"kind":"started","revokes":true}`, &yes},
		"a change of the file":           {`{"kind":"trusted","revokes":true}`, &yes},
		"an older start without a file":  {`{"kind":"started","policy":"p"}`, &no},
		"an older start with a file":     {`{"kind":"started","policy":"p","revoked":"00"}`, &yes},
		"an older unreadable file":       {`{"kind":"trusted","policy":"p","revoked":"unreadable"}`, &yes},
		"an older file of comments":      {`{"kind":"trusted","policy":"p","revoked":"00","detail":"0 keys revoked, sha256:00"}`, &no},
		"an older start with comments":   {`{"kind":"started","policy":"p","revoked":"00","detail":"gated 1; revoked keys: 0 in /x"}`, &no},
		"an older file that never was":   {`{"kind":"started","policy":"p","revoked":"unreadable","detail":"gated 1; revoked keys: ` + gone + `"}`, &no},
		"an older change that never was": {`{"kind":"trusted","policy":"p","revoked":"unreadable","detail":"` + gone + `"}`, &no},
		"an older restore":               {`{"kind":"trusted","epoch":1,"detail":"keys were revoked before the restore"}`, &yes},
		"the oldest start":               {`{"kind":"started","detail":"gated 0"}`, &no},
		"an old start without a file":    {`{"kind":"started","detail":"gated 1; revoked keys: none, there is no /x"}`, &no},
		"an old start with comments":     {`{"kind":"started","detail":"gated 1; revoked keys: 0 in /x"}`, &no},
		"an old start with keys":         {`{"kind":"started","detail":"gated 1; revoked keys: 10 in /x"}`, &yes},
		"an old unreadable file": {`{"kind":"started",
			"detail":"gated 1; revoked keys: the revocation file cannot be read, so no signature counts: x"}`, &yes},
		"an old change to none": {`{"kind":"trusted","detail":"0 keys revoked, sha256:00"}`, &no},
		"an old change to ten":  {`{"kind":"trusted","detail":"10 keys revoked, sha256:00"}`, &yes},
		"an edit of the list":   {`{"kind":"trusted","target":"trust/signers"}`, nil},
		"a rotation":            {`{"kind":"rotated"}`, nil},
		"anything else":         {`{"kind":"stopped"}`, nil},
		"words of version 2":    {`{"v":2,"kind":"started","detail":"gated 1; revoked keys: 10 in /x"}`, nil},
	} {
		e, err := audit.Decode([]byte(c.body))
		require.NoError(t, err, name)
		require.Equal(t, c.want, e.Revokes, name)
	}
}

// TestAVersionThatIsNotKnown: this program cannot say what such an entry means.
func TestAVersionThatIsNotKnown(t *testing.T) {
	for _, body := range []string{`{"v":1,"seq":4,"kind":"planned","prev":""}`, `{"v":3,"seq":4,"kind":"planned","prev":""}`,
		`{"v":-2,"seq":4,"kind":"planned","prev":""}`, `{"v":"2","seq":4,"kind":"planned","prev":""}`} {
		_, err := audit.Decode([]byte(body))
		require.Error(t, err, body)
		l := filled(t, 3)
		l.write([]byte(body))
		l.broken(4)
		l.view(func(tx *store.Tx) error {
			var b *audit.BrokenError
			_, err := audit.Verify(tx, func(audit.Entry) error { return nil })
			require.ErrorAs(t, err, &b, body)
			require.EqualValues(t, 4, b.Seq)
			_, err = audit.After(tx, 0, 10)
			require.Error(t, err)
			return nil
		})
	}
}

// write adds texts to the log as they are, with their hashes.
func (l *log) write(bodies ...[]byte) {
	l.t.Helper()
	l.update(func(tx *store.Tx) error {
		for _, body := range bodies {
			sum := sha256.Sum256(body)
			_, err := tx.Exec(`INSERT INTO audit(seq, body, hash) SELECT coalesce(max(seq), 0) + 1, ?, ? FROM audit`,
				body, sum[:])
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TestALogOfBothVersions: a log that began in version 1 goes on in version 2. Its old
// texts, hashes and heads stay, and proofs lead from each to the other.
func TestALogOfBothVersions(t *testing.T) {
	l, key := signing(t)
	old := recorded(t, "v1log.jsonl")
	l.write(old...)
	before := l.signed(key)
	require.EqualValues(t, len(old), before.Size)
	l.append(audit.Entry{Time: when, Kind: audit.Keyed, Parts: audit.Parts{HeadKey: key.Public}},
		audit.Entry{Time: when, Kind: audit.Succeeded, Parts: audit.Parts{OutputSHA256: "o"}})
	after := l.signed(key)
	l.view(func(tx *store.Tx) error {
		var all []audit.Entry
		_, err := audit.Verify(tx, func(e audit.Entry) error { all = append(all, e); return nil }, before, after)
		require.NoError(t, err)
		require.Len(t, all, len(old)+2)
		require.Equal(t, "builder", all[35].Registration.Name)
		require.Equal(t, key.Public, all[len(old)].HeadKey)

		bodies, err := audit.Bodies(tx, 0, len(old))
		require.NoError(t, err)
		require.Equal(t, old, bodies)
		proof, err := audit.Proofs{}.Consistency(tx, before.Size, after.Size)
		require.NoError(t, err)
		require.NoError(t, before.Continues(after, proof))
		for _, seq := range []int64{1, before.Size, after.Size} {
			text, proof, err := audit.Proofs{}.Inclusion(tx, seq, after.Size)
			require.NoError(t, err)
			require.NoError(t, after.Includes(seq, text, proof))
		}
		return nil
	})
}
