package evidence_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/log/checkpoint"
	"gated/internal/log/evidence"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// tampering is a change of the evidence about j1.1, and what the verifier says.
type tampering struct {
	name   string
	change func(w *world, d *evidence.Document)
	says   string
}

const (
	notInLog   = "is not in the log"
	notSigned  = "the head is not signed with the gate's key"
	notAsked   = "the payload is not the one that was asked for"
	notNamed   = "a signature is not by a key that the log names"
	notForce   = "the list of signers is not the one in force then"
	notGoingOn = "the log does not go on from the head that the witness saw"
)

// at returns the place of the entry of a kind.
func at(d *evidence.Document, kind string) int {
	for i, e := range d.Entries {
		if strings.Contains(e.Text, `"kind":"`+kind+`"`) {
			return i
		}
	}
	panic("no entry " + kind)
}

func drop(kind string) func(*world, *evidence.Document) {
	return func(_ *world, d *evidence.Document) {
		i := at(d, kind)
		d.Entries = append(d.Entries[:i:i], d.Entries[i+1:]...)
	}
}

func replace(text *string, old, new string) {
	if !strings.Contains(*text, old) {
		panic("nothing to change: " + old)
	}
	*text = strings.Replace(*text, old, new, 1)
}

// withoutKey lists what somebody can do who has no key.
var withoutKey = []tampering{
	{"another target in the payload", func(_ *world, d *evidence.Document) {
		d.Payload = []byte(strings.Replace(string(d.Payload), "guest/web-1", "guest/web-9", 1))
	}, notAsked},
	{"no payload", func(_ *world, d *evidence.Document) { d.Payload = nil }, notAsked},
	{"no signature", func(_ *world, d *evidence.Document) { d.Signatures = nil }, "a signature that the log names is not in the evidence"},
	{"a signature twice", func(_ *world, d *evidence.Document) { d.Signatures = append(d.Signatures, d.Signatures[0]) }, "or is there twice"},
	{"a stranger's signature", func(w *world, d *evidence.Document) {
		d.Signatures[0].Armor = gateworld.Signed(w.t, d.Payload, mint.Ed25519(w.t, "mallory")).Signatures[0]
	}, "a signature is not by a key that the log names"},
	{"a signature over other bytes", func(w *world, d *evidence.Document) {
		d.Signatures[0].Armor = mint.Sign(w.t, w.alice, op.Operational.Namespace(), []byte("other")).Armored()
	}, "ssh-keygen refuses the signature of alice as operational"},
	{"a signature of another role", func(w *world, d *evidence.Document) {
		d.Signatures[0].Armor = mint.Sign(w.t, w.alice, op.Recovery.Namespace(), d.Payload).Armored()
	}, notNamed},
	{"a cut signature", func(_ *world, d *evidence.Document) { replace(&d.Signatures[0].Armor, "U1NIU0lH", "") }, "NOT VERIFIED"},
	{"another list of signers", func(_ *world, d *evidence.Document) { d.Signers.Text += "# \n" }, notForce},
	{"no list of signers", func(_ *world, d *evidence.Document) { d.Signers = nil }, notForce},
	{"another reason in an entry", func(_ *world, d *evidence.Document) {
		replace(&d.Entries[at(d, "requested")].Text, "it is old", "it is new")
	}, notInLog},
	{"another outcome", func(_ *world, d *evidence.Document) {
		replace(&d.Entries[at(d, "succeeded")].Text, `"succeeded"`, `"failed"`)
	}, notInLog},
	{"no approval", drop("approved"), "says dispatched of a step that was pending"},
	{"no request", drop("requested"), "says approved of a step that was new"},
	{"no dispatch", drop("dispatched"), "says succeeded of a step that was authorized"},
	{"no outcome", drop("succeeded"), "no entry says how the step ended"},
	{"no entry with the revoked keys", drop("started"), "the revoked keys shown are not those in force then"},
	{"entries in another order", func(_ *world, d *evidence.Document) {
		d.Entries[1], d.Entries[2] = d.Entries[2], d.Entries[1]
	}, "the entries are not in the order of the log"},
	{"an entry twice", func(_ *world, d *evidence.Document) { d.Entries = append(d.Entries, d.Entries[len(d.Entries)-1]) }, "not in the order of the log"},
	{"another number of an entry", func(_ *world, d *evidence.Document) { d.Entries[1].Seq++ }, notInLog},
	{"another proof", func(_ *world, d *evidence.Document) { d.Entries[1].Proof = d.Entries[0].Proof }, notInLog},
	{"a longer proof", func(_ *world, d *evidence.Document) {
		d.Entries[1].Proof = append(d.Entries[1].Proof, d.Entries[1].Proof[0])
	}, "a proof is too long"},
	{"a shorter proof", func(_ *world, d *evidence.Document) { d.Entries[1].Proof = d.Entries[1].Proof[1:] }, "a proof is too short"},
	{"another step's name", func(_ *world, d *evidence.Document) { d.Step = "j2.1" }, "no entry says how the step ended"},
	{"another host", func(_ *world, d *evidence.Document) { d.Host = "pve2" }, "the payload is of something else than the log says"},
	{"other facts shown", func(_ *world, d *evidence.Document) { d.Shown.Labels = `{"tier":"test"}` }, "what people were shown is not what the log says"},
	{"a larger head", func(_ *world, d *evidence.Document) { replace(&d.Head.Note, "\n7\n", "\n8\n") }, notSigned},
	{"a head signed with another key", func(w *world, d *evidence.Document) {
		other := must.Get(checkpoint.NewKey(gateworld.ID))(w.t)
		d.Head.Key, d.Head.SSH = other.Public, must.Get(must.Get(checkpoint.Read(d.Head.Note))(w.t).SignSSH(other))(w.t)
	}, notSigned},
	{"a head of another gate", func(w *world, d *evidence.Document) {
		resign(w, d, must.Get(checkpoint.NewKey("ffffffffffffffffffffffffffffffff"))(w.t))
	}, "the head is of another gate than the key"},
	{"a signature of the head in another namespace", func(w *world, d *evidence.Document) {
		d.Head.SSH = d.Signatures[0].Armor
	}, notSigned},
	{"no signature of the head", func(_ *world, d *evidence.Document) { d.Head.SSH = "" }, "neither the gate's key nor a witness vouches for the head"},
	{"a batch that nobody signed", func(_ *world, d *evidence.Document) {
		d.Signatures[0].Batch = &evidence.Batch{Payload: []byte(`{}`)}
	}, notNamed},
	{"another number of the list", func(_ *world, d *evidence.Document) { d.Signers.Epoch++ }, notForce},
	{"words of more lines as the step's name", func(_ *world, d *evidence.Document) { d.Step += "\nj9.1: verified" }, "this is no step"},
	{"another type", func(_ *world, d *evidence.Document) { d.Type = "gated/evidence/v2" }, "this is no evidence"},
}

// resign signs the head with another key, under its own gate's name.
func resign(w *world, d *evidence.Document, key checkpoint.Key) {
	c := must.Get(checkpoint.Read(d.Head.Note))(w.t)
	c.Gate = key.Gate()
	d.Head = evidence.Head{Note: must.Get(c.Sign(key))(w.t), Key: key.Public, SSH: must.Get(c.SignSSH(key))(w.t)}
}

// log is a Merkle tree over texts.
type log []tlog.Hash

func (l log) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, i := range indexes {
		out = append(out, l[i])
	}
	return out, nil
}

// forge has the holder of the gate's key write a new log, which has the document's entries after a change, and sign its head.
func forge(w *world, d *evidence.Document, change func(kind string, text *string)) {
	var l log
	n := int64(0)
	c := must.Get(checkpoint.Read(d.Head.Note))(w.t)
	add := func(text string) {
		l = append(l, must.Get(tlog.StoredHashes(n, []byte(text), l))(w.t)...)
		n++
	}
	at := 0
	for seq := int64(1); seq <= c.Size; seq++ {
		if at < len(d.Entries) && d.Entries[at].Seq == seq {
			e := must.Get(entryOf(d.Entries[at].Text))(w.t)
			change(string(e.Kind), &d.Entries[at].Text)
			add(d.Entries[at].Text)
			at++
			continue
		}
		add(`{"seq":0}`)
	}
	for i := range d.Entries {
		d.Entries[i].Proof = checkpoint.EncodeHashes(must.Get(tlog.ProveRecord(n, d.Entries[i].Seq-1, l))(w.t))
	}
	c.Root = must.Get(tlog.TreeHash(n, l))(w.t)
	d.Head = evidence.Head{Note: must.Get(c.Sign(w.key))(w.t), Key: w.key.Public, SSH: must.Get(c.SignSSH(w.key))(w.t)}
}

// in forges one entry.
func in(kind, old, new string) func(*world, *evidence.Document) {
	return func(w *world, d *evidence.Document) {
		forge(w, d, func(k string, text *string) {
			if k == kind {
				replace(text, old, new)
			}
		})
	}
}

// withGateKey lists what the holder of the gate's key tries, and what still shows it.
var withGateKey = []tampering{
	{"another target, in the payload and in the log", func(w *world, d *evidence.Document) {
		old := op.SHA256(d.Payload)
		d.Payload = []byte(strings.ReplaceAll(string(d.Payload), "web-1", "web-9"))
		forge(w, d, func(_ string, text *string) {
			*text = strings.ReplaceAll(strings.ReplaceAll(*text, "web-1", "web-9"), old, op.SHA256(d.Payload))
		})
	}, "ssh-keygen refuses the signature of alice as operational"},
	{"a target that nobody signed", func(w *world, d *evidence.Document) {
		forge(w, d, func(_ string, text *string) { *text = strings.ReplaceAll(*text, "web-1", "web-9") })
	}, "the payload is of something else than the log says"},
	{"other parameters in the log", in("requested", `"reason"`, `"params":{"force":true},"reason"`), "the payload has other parameters"},
	{"a step that runs before it is approved", func(w *world, d *evidence.Document) {
		forge(w, d, func(k string, text *string) {
			if k == "approved" {
				replace(text, `"approved"`, `"signed"`)
			}
		})
	}, "says dispatched of a step that was pending"},
	{"a step that runs twice", func(w *world, d *evidence.Document) {
		again := evidence.Entry{Seq: 2, Text: d.Entries[at(d, "dispatched")].Text}
		replace(&again.Text, `"seq":6`, `"seq":2`)
		d.Entries = append([]evidence.Entry{again}, d.Entries...)
		forge(w, d, func(string, *string) {})
	}, "says dispatched of a step that was new"},
	{"an approval after the payload expired", in("approved", "2026-03-01T12", "2026-03-05T12"), "the payload was not in time"},
	{"a run after the payload expired", in("dispatched", "2026-03-01T12", "2026-03-05T12"), "or after the payload had expired"},
	{"a run before the approval's time", in("dispatched", "2026-03-01T12:00:02", "2026-03-01T11:00:00"), "it ran before its wait was over"},
	{"more people were needed", in("approved", `\"threshold\":1`, `\"threshold\":2`), "the signatures are not all that was needed"},
	{"another role was needed", in("approved", `\"operational\"`, `\"manager\"`), "the signatures are not all that was needed"},
	{"a touch was needed", in("approved", `\"touch\":\"\"`, `\"touch\":\"touch\"`), "the signatures are not all that was needed"},
	{"a second signer", in("approved", `"signers":[`, `"signers":["bob operational `+lost+`",`), "a signature that the log names is not in the evidence"},
	{"a security key's flags", in("approved", `"],"in_force"`, ` flags=0x05 counter=1"],"in_force"`), notNamed},
	{"a passkey's page", in("approved", `"],"in_force"`, ` origin=https://gate.example.com"],"in_force"`), notNamed},
	{"nothing was needed", in("approved", `"need":`, `"none":`), "it has not the form of evidence (KeyError('need'))"},
	{"no key was revoked", in("approved", `"revoked":"`, `"unknown":"`), "the revoked keys shown are not those in force then"},
	{"it ran as benign, unsigned", func(w *world, d *evidence.Document) {
		drop("approved")(w, d)
		forge(w, d, func(_ string, text *string) {
			*text = strings.ReplaceAll(*text, `"class":"destructive"`, `"class":"benign"`)
		})
	}, "says dispatched of a step that was pending"},
	{"a rejection before it ran", func(w *world, d *evidence.Document) {
		no := evidence.Entry{Seq: 2, Text: d.Entries[at(d, "dispatched")].Text}
		replace(&no.Text, `"seq":6`, `"seq":2`)
		replace(&no.Text, `"dispatched"`, `"rejected"`)
		d.Entries = append([]evidence.Entry{no}, d.Entries...)
		forge(w, d, func(string, *string) {})
	}, "says rejected of a step that was new"},
	{"another gate ran it", in("dispatched", `"gate":"`+string(gateworld.ID), `"gate":"ffffffffffffffffffffffffffffffff`), "another gate ran it than the one that was asked"},
	{"another incarnation than the signed one", in("dispatched", `"incarnation":"i1"`, `"incarnation":"i9"`), "it ran on another incarnation"},
	{"a time that is none", in("succeeded", "12:00:02Z", "12:00:02"), "this is no time"},
	{"a caller's refusal as the end of the step", func(w *world, d *evidence.Document) {
		drop("approved")(w, d)
		drop("dispatched")(w, d)
		forge(w, d, func(k string, text *string) {
			if k == "succeeded" {
				*text = strings.ReplaceAll(strings.ReplaceAll(*text, `"succeeded"`, `"refused"`), `"class":"destructive",`, "")
			}
		})
	}, "no entry says how the step ended"},
	{"the signer was revoked", func(w *world, d *evidence.Document) {
		forge(w, d, func(k string, text *string) {
			if k == "started" {
				replace(text, lost, w.alice.Fingerprint())
			}
		})
	}, "a key that signed was revoked then"},
	{"another list was in force", in("approved", `"epoch":1,"sha256":"`, `"epoch":1,"sha256":"0`), notForce},
	{"another request was approved", in("requested", `"payload_sha256":"`, `"payload_sha256":"0`), "the payload is not the one that was asked for"},
}

// withWitness lists what the holder of the gate's key can do that only a kept head shows.
var withWitness = []tampering{
	{"another outcome", in("succeeded", `"succeeded"`, `"failed"`), notGoingOn},
	{"other words of the requester", in("requested", "it is old", "it is new"), notGoingOn},
	{"a list of signers of his own", func(w *world, d *evidence.Document) {
		mallory := mint.Ed25519(w.t, "mallory")
		old := op.SHA256([]byte(d.Signers.Text))
		d.Signers.Text = gateworld.Line(mallory, op.Operational)
		d.Signatures[0].Armor = gateworld.Signed(w.t, d.Payload, mallory).Signatures[0]
		forge(w, d, func(_ string, text *string) {
			*text = strings.ReplaceAll(strings.ReplaceAll(*text, old, op.SHA256([]byte(d.Signers.Text))),
				"alice operational "+w.alice.Fingerprint(), "mallory operational "+mallory.Fingerprint())
		})
	}, notGoingOn},
}

func tampered(t *testing.T, change func(*world, *evidence.Document)) (w *world, text, heads string) {
	w = newWorld(t)
	id := w.destroyed("web-1")
	heads, kept := w.head()
	d := w.evidence(id, kept)
	before := line(t, d)
	change(w, &d)
	text = line(t, d)
	require.NotEqual(t, before, text)
	return w, text, heads
}

func TestTamperingWithoutAKey(t *testing.T) {
	for _, c := range withoutKey {
		t.Run(c.name, func(t *testing.T) {
			w, text, _ := tampered(t, c.change)
			code, words := verify(t, text, "--gate-key", w.key.Public)
			require.Equal(t, 1, code, words)
			require.Contains(t, words, c.says)
		})
	}
	require.GreaterOrEqual(t, len(withoutKey)+len(withGateKey)+len(withWitness), 20)
}

func TestTamperingWithTheGatesKey(t *testing.T) {
	for _, c := range withGateKey {
		t.Run(c.name, func(t *testing.T) {
			w, text, heads := tampered(t, c.change)
			code, words := verify(t, text, "--gate-key", w.key.Public)
			require.Equal(t, 1, code, words)
			require.Contains(t, words, c.says)
			require.NotContains(t, words, notSigned)
			code, words = verify(t, text, witnessFile(t, heads)...)
			require.Equal(t, 1, code, words)
			require.Contains(t, words, notGoingOn)
		})
	}
}

// TestWhatOnlyAWitnessShows: the gate's key alone lets its holder write another past. A head that the reader kept shows that.
func TestWhatOnlyAWitnessShows(t *testing.T) {
	for _, c := range withWitness {
		t.Run(c.name, func(t *testing.T) {
			w, text, heads := tampered(t, c.change)
			code, words := verify(t, text, "--gate-key", w.key.Public)
			require.Equal(t, 0, code, "%s\nthe page says that the key alone does not show this", words)
			code, words = verify(t, text, append(witnessFile(t, heads), "--gate-key", w.key.Public)...)
			require.Equal(t, 1, code, words)
			require.Contains(t, words, c.says)
		})
	}
}

func TestTamperingWithTheWitness(t *testing.T) {
	for _, c := range []tampering{
		{"another head than the reader's", func(w *world, d *evidence.Document) {
			d.Witness.Note = strings.Replace(d.Witness.Note, "\n7\n", "\n6\n", 1)
		}, "the head of the witness is not in your file"},
		{"no head", func(_ *world, d *evidence.Document) { d.Witness = nil }, "the evidence names no head of a witness"},
		{"a proof of something else", func(_ *world, d *evidence.Document) {
			d.Witness.Proof = []string{base64.StdEncoding.EncodeToString(make([]byte, 32))}
		}, notGoingOn},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, text, heads := tampered(t, c.change)
			code, words := verify(t, text, witnessFile(t, heads)...)
			require.Equal(t, 1, code, words)
			require.Contains(t, words, c.says)
		})
	}
}

// TestNewerThanTheWitness: without the gate's key, nobody vouches for what came after the reader's head.
func TestNewerThanTheWitness(t *testing.T) {
	w := newWorld(t)
	w.destroyed("web-1")
	heads, kept := w.head()
	id := w.destroyed("web-2")
	code, words := verify(t, line(t, w.evidence(id, kept)), witnessFile(t, heads)...)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "is newer than what the witness saw")
}

func TestAMemberTwice(t *testing.T) {
	w := newWorld(t)
	text := strings.Replace(line(t, w.evidence(w.destroyed("web-1"))), `{"type"`, `{"host":"pve9","type"`, 1)
	code, words := verify(t, text, "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "a JSON object has a member twice")
}

// TestATerminalObeysNothing: words in a forged log do not reach the terminal as control characters, or as lines of their own.
func TestATerminalObeysNothing(t *testing.T) {
	w, text, _ := tampered(t, in("succeeded", "12:00:02Z", `12:00:02Z\u001b[2J\nevidence j9.1: verified`))
	code, words := verify(t, text, "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "12:00:02Z?[2J?evidence j9.1: verified")
	require.NotContains(t, words, "\x1b")
	require.Equal(t, 1, strings.Count(words, "\n"))
}
