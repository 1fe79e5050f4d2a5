package evidence_test

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/log/evidence"
	"gated/internal/people/policy"
	"gated/internal/test/evidencereader"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// rule has the gate take this rule from now on.
func (w *world) rule(r policy.Rule) {
	p := policy.Default()
	r.Where, r.Op = "gated.yaml:3", "guest.destroy"
	p.Rules = []policy.Rule{r}
	require.NoError(w.t, w.gate.Reload(w.t.Context(), must.Get(authz.LoadRevoked([]byte(lost+"\n")))(w.t), p))
}

func (w *world) approve(id op.RequestID, k mint.Key) {
	w.wall = w.wall.Add(time.Second)
	must.Get(w.gate.Approve(w.t.Context(), by, id, gateworld.Signed(w.t, w.request(id).Payload, k)))(w.t)
}

func (w *world) reject(id op.RequestID) {
	must.Get(w.gate.Reject(w.t.Context(), by, id, gateworld.Rejection(w.t, w.gate, w.request(id), w.wall, w.alice)))(w.t)
}

// TestWhatBothReadersAccept: evidence of each way for a step to end is verified by the script and by the reader in Go.
func TestWhatBothReadersAccept(t *testing.T) {
	bob := mint.Ed25519(t, "bob")
	for name, c := range map[string]struct {
		live func(w *world) op.StepID
		says string
	}{
		"two people and a wait": {func(w *world) op.StepID {
			w.rule(policy.Rule{Threshold: 2, CoolOff: time.Minute})
			id := w.ask("web-1")
			w.approve(id, w.alice)
			w.approve(id, bob)
			w.wall = w.wall.Add(time.Minute - time.Second)
			w.run(id)
			return id
		}, "succeeded at 2026-03-01T12:01:02Z"},
		"no signature was needed": {func(w *world) op.StepID {
			j := must.Get(w.gate.Submit(t.Context(), op.Submission{Requester: by, Steps: []op.Ask{gateworld.Ask("guest.start", "web-1")}}))(t)
			id := j.Steps[0].ID
			p := must.Get(w.gate.Permit(t.Context(), id))(t)
			require.NoError(t, p.Use(t.Context(), must.Get(w.Observe(t.Context(), p.Step().Look()))(t)))
			must.Get(w.gate.Record(t.Context(), id, gate.Outcome{Err: errors.New("it does not start")}))(t)
			return id
		}, "nobody had to sign"},
		"the driver refused": {func(w *world) op.StepID {
			id := w.ask("web-1")
			w.approve(id, w.alice)
			must.Get(w.gate.Refuse(t.Context(), id, errors.New("it has a lock")))(t)
			return id
		}, "refused at 2026-03-01T12:00:01Z"},
		"rejected by other rules than approved": {func(w *world) op.StepID {
			id := w.ask("web-1")
			w.approve(id, w.alice)
			w.rule(policy.Rule{Threshold: 1, CoolOff: time.Minute})
			w.reject(id)
			return id
		}, "NOT verified: the signatures of the approval, because the step was rejected later"},
		"rejected while the revoked keys could not be read": {func(w *world) op.StepID {
			id := w.ask("web-1")
			require.NoError(t, w.gate.Reload(t.Context(), authz.UnreadableRevoked(errors.New("a disk fault")), policy.Default()))
			w.reject(id)
			return id
		}, "NOT verified: which keys were revoked then, because the gate could not read it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, gateworld.Line(bob, op.Operational))
			code, words := verify(t, line(t, w.evidence(c.live(w))), "--gate-key", w.key.Public)
			require.Equal(t, 0, code, words)
			require.Contains(t, words, c.says)
		})
	}
}

// TestAnApprovalWhileTheRevokedKeysCouldNotBeRead: no gate counts a signature then.
func TestAnApprovalWhileTheRevokedKeysCouldNotBeRead(t *testing.T) {
	w := newWorld(t)
	d := w.evidence(w.destroyed("web-1"))
	revoked := must.Get(entryOf(d.Entries[0].Text))(t).Revoked
	forge(w, &d, func(_ string, text *string) { *text = strings.ReplaceAll(*text, revoked, authz.RevokedUnreadable) })
	code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "it was approved while the gate could not read which keys are revoked")
}

// TestASecondRunAsBenign: who was asked to sign a step signed for one run of it.
func TestASecondRunAsBenign(t *testing.T) {
	w := newWorld(t)
	id := w.destroyed("web-1")
	w.destroyed("web-2")
	d := w.evidence(id)
	dispatched := d.Entries[at(&d, "dispatched")].Text
	ended := d.Entries[at(&d, "succeeded")]
	d.Entries = d.Entries[:at(&d, "succeeded")]
	for i, kind := range []string{"retried", "dispatched"} {
		text := strings.Replace(strings.Replace(dispatched, `"dispatched"`, `"`+kind+`"`, 1), `"destructive"`, `"benign"`, 1)
		d.Entries = append(d.Entries, evidence.Entry{Seq: ended.Seq + int64(i), Text: numbered(text, 6, 7+i)})
	}
	d.Entries = append(d.Entries, evidence.Entry{Seq: ended.Seq + 2, Text: numbered(ended.Text, 7, 9)})
	forge(w, &d, func(string, *string) {})
	code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "it ran without an approval, or twice")
}

// TestALogOfVersion1: the oldest programs wrote the same in other members, and less of it.
func TestALogOfVersion1(t *testing.T) {
	w := newWorld(t)
	d := w.evidence(w.destroyed("web-1"))
	forge(w, &d, func(_ string, text *string) {
		*text = strings.Replace(*text, `"v":2,`, "", 1)
		*text = regexp.MustCompile(`"signers_file":\{("epoch":1,)"sha256":("[0-9a-f]+")\}`).ReplaceAllString(*text, `$1"digest":$2`)
		*text = regexp.MustCompile(`"(revoked_keys":\[.*?\]|in_force":\{.*?[^\\]"\}),`).ReplaceAllString(*text, "")
		*text = strings.Replace(*text, `"shown_sha256"`, `"digest"`, 1)
	})
	code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "NOT verified: that this was the newest list")
	require.NotContains(t, words, "NOT verified: what people were shown")

	d.Shown.Labels = `{"tier":"test"}`
	code, words = verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "what people were shown is not what the log says")
}

// TestAnUnknownVersion: the members of an entry of a later version may mean something else.
func TestAnUnknownVersion(t *testing.T) {
	w, text, _ := tampered(t, in("succeeded", `"v":2`, `"v":3`))
	code, words := verify(t, text, "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "an entry is of a version that this program does not know")
}

// numbered gives an entry another number.
func numbered(text string, from, to int) string {
	replace(&text, `"seq":`+strconv.Itoa(from), `"seq":`+strconv.Itoa(to))
	return text
}

// TestWhereABatchCounts: a batch's signature is as none where the need takes no batch.
func TestWhereABatchCounts(t *testing.T) {
	bob := mint.Ed25519(t, "bob")
	both := `namespaces="operational@gated,operational@batch.gated"`
	w := newWorld(t, bob.Line("bob", both))
	d := w.evidence(w.destroyedBy("web-1", func(payload []byte) authz.Envelope {
		return gateworld.BatchSigned(t, w.wall, [][]byte{payload, []byte("another")}, bob)[0]
	}))
	single := func(text *string) { replace(text, `\"max_validity\":86400`, `\"max_validity\":86400,\"single\":true`) }
	for name, c := range map[string]struct {
		need   func(text *string)
		signed bool // alice signed the payload alone too
		says   string
	}{
		"single": {single, false, "the signatures are not all that was needed"},
		"a way in which the role has to verify its user": {func(text *string) {
			replace(text, `}],\"windows\"`, `},{\"name\":\"recovery\",\"demands\":[{\"rule\":\"f:1\",\"roles\":[\"operational\"],\"threshold\":9,\"touch\":\"verification\"}]}],\"windows\"`)
		}, false, "the signatures are not all that was needed"},
		"another person signed alone": {single, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			forged := d
			forged.Entries = append([]evidence.Entry{}, d.Entries...)
			if c.signed {
				forged.Signatures = append(forged.Signatures[:1:1], evidence.Signature{Armor: gateworld.Signed(t, d.Payload, w.alice).Signatures[0]})
			}
			forge(w, &forged, func(kind string, text *string) {
				if kind != "approved" {
					return
				}
				c.need(text)
				if c.signed {
					replace(text, `"signers":[`, `"signers":["alice operational `+w.alice.Fingerprint()+`",`)
				}
			})
			code, words := verify(t, line(t, forged), "--gate-key", w.key.Public)
			require.Equal(t, c.says != "", code == 1, words)
			require.Contains(t, words, c.says)
		})
	}
}

// TestAHeadThatTheWitnessDoubted: a head in the reader's file that contradicted the kept one is not the reader's.
func TestAHeadThatTheWitnessDoubted(t *testing.T) {
	w := newWorld(t)
	id := w.destroyed("web-1")
	heads, kept := w.head()
	doubted := strings.Replace(heads, `}`, `,"why":"no-proof","against":{"note":""}}`, 1)
	code, words := verify(t, line(t, w.evidence(id, kept)), witnessFile(t, doubted)...)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "the head of the witness is not in your file")
}

// TestABatchThatWasLate: the batch's own time counts, at the entry that named it first.
func TestABatchThatWasLate(t *testing.T) {
	bob := mint.Ed25519(t, "bob")
	w := newWorld(t, bob.Line("bob", `namespaces="operational@gated,operational@batch.gated"`))
	d := w.evidence(w.destroyedBy("web-1", func(payload []byte) authz.Envelope {
		return gateworld.BatchSigned(t, w.wall, [][]byte{payload}, bob)[0]
	}))
	forge(w, &d, func(kind string, text *string) {
		if kind == "approved" || kind == "dispatched" || kind == "succeeded" {
			replace(text, "2026-03-01T12:00", "2026-03-01T12:17")
		}
	})
	code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "the batch was not in time")
}

// TestTheFormOfALine: both readers take the same texts for evidence, also where no key is needed to write another one.
func TestTheFormOfALine(t *testing.T) {
	w := newWorld(t)
	signed := line(t, w.evidence(w.destroyed("web-1")))
	j := must.Get(w.gate.Submit(t.Context(), op.Submission{Requester: by, Steps: []op.Ask{gateworld.Ask("guest.start", "web-1")}}))(t)
	w.run(j.Steps[0].ID)
	benign := line(t, w.evidence(j.Steps[0].ID))
	for name, c := range map[string]struct {
		text, old, new string
		code           int
	}{
		"as it is":                          {signed, `{"type"`, `{"type"`, 0},
		"a carriage return as a blank":      {signed, `{"type"`, "{\r" + `"type"`, 0},
		"an unknown member":                 {signed, `{"type"`, `{"x":1,"type"`, 0},
		"no batch":                          {signed, `{"armor"`, `{"batch":null,"armor"`, 0},
		"no number":                         {signed, `{"type"`, `{"x":NaN,"type"`, 1},
		"half a surrogate pair":             {signed, `{"type"`, `{"x":"\ud800","type"`, 1},
		"bytes that are no UTF-8":           {signed, `{"type"`, `{"x":"` + "\xff" + `","type"`, 1},
		"a carriage return as a line end":   {signed + signed, "\n", "\r", 1},
		"true for 1":                        {signed, `"epoch":1,`, `"epoch":true,`, 1},
		"1.0 for 1":                         {signed, `"epoch":1,`, `"epoch":1.0,`, 1},
		"an entry's number with a point":    {signed, `{"seq":3,`, `{"seq":3.0,`, 1},
		"a benign step":                     {benign, `{"type"`, `{"type"`, 0},
		"a benign step with facts shown":    {benign, `{"type"`, `{"shown":{},"type"`, 1},
		"a benign step with a list":         {benign, `{"type"`, `{"signers":{},"type"`, 1},
		"a benign step without any of them": {benign, `{"type"`, `{"payload":"","shown":null,"signatures":[],"type"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.text
			replace(&text, c.old, c.new)
			code, words := verify(t, text, "--gate-key", w.key.Public)
			require.Equal(t, c.code, code, words)
		})
	}
}

// TestAKeyThatIsNone: the key of a reader who copied it wrongly says nothing of the evidence.
func TestAKeyThatIsNone(t *testing.T) {
	w := newWorld(t)
	text := line(t, w.evidence(w.destroyed("web-1")))
	parts := strings.SplitN(w.key.Public, "+", 3)
	for name, key := range map[string]string{
		"another hash":      parts[0] + "+00000000+" + parts[2],
		"another algorithm": parts[0] + "+" + parts[1] + "+C" + parts[2][1:],
		"no key":            parts[0],
	} {
		code, words := verify(t, text, "--gate-key", key)
		require.Equal(t, 2, code, "%s: %s", name, words)
		require.Contains(t, words, "give the gate's public key")
	}
}

// TestNoEvidence: a period without a decision makes an empty directory, and the verifier says so.
func TestNoEvidence(t *testing.T) {
	c := exec.CommandContext(t.Context(), evidencereader.Python(t), "../../../scripts/verify-evidence.py", "--gate-key", newWorld(t).key.Public, t.TempDir())
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 2, c.ProcessState.ExitCode(), string(out))
	require.Contains(t, string(out), "there is no evidence in ")
}
