package evidencereader

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// prove is steps 2 to 4, and of step 5 the order.
func (r *reading) prove(own Own) {
	head := get(checkpoint.Read(r.Head.Note))
	vouched := max(r.signed(head, own.GateKey), r.witnessed(head, own.Witness))
	must(vouched > 0, "neither the gate's key nor a witness vouches for the head")
	for i, e := range r.Entries {
		must(i == 0 || r.Entries[i-1].Seq < e.Seq, "the entries are not in the order of the log")
		hold(head.Includes(e.Seq, []byte(e.Text), get(checkpoint.DecodeHashes(e.Proof))))
		must(e.Seq <= vouched, "entry %d is newer than what the witness saw", e.Seq)
		entry := get(audit.Decode([]byte(e.Text)))
		must(entry.Seq == e.Seq, "entry %d says that it is entry %d", e.Seq, entry.Seq)
		must(entry.Kind != "" && !entry.Time.IsZero(), "entry %d has no kind or no time", e.Seq)
		r.entries = append(r.entries, entry)
	}
}

// signed is step 2. It returns for how many entries the gate's key vouches: 0 if the key or the signature is not there.
func (r *reading) signed(head checkpoint.Checkpoint, key string) int64 {
	if key == "" {
		return 0
	}
	must(get(checkpoint.NewVerifier(key)).Name() == checkpoint.Origin(head.Gate), "the head is of another gate than the key")
	if r.Head.SSH == "" {
		return 0
	}
	raw := get(base64.StdEncoding.DecodeString(strings.SplitN(key, "+", 3)[2])) // a byte 1, and the key
	public := get(ssh.NewPublicKey(ed25519.PublicKey(raw[1:])))
	sig := get(sshsig.Unarmor([]byte(r.Head.SSH)))
	hold(sshsig.Verify(strings.NewReader(head.String()), sig, public, sig.HashAlgorithm, checkpoint.SSHNamespace))
	return head.Size
}

// witnessed is step 3. It returns for how many entries the reader's own head vouches: 0 if the reader has none.
func (r *reading) witnessed(head checkpoint.Checkpoint, own string) int64 {
	if own == "" {
		return 0
	}
	must(r.Witness != nil, "the evidence names no head of a witness")
	seen, proof := get(checkpoint.Read(r.Witness.Note)), get(checkpoint.DecodeHashes(r.Witness.Proof))
	heads := kept(own, head.Gate)
	must(slices.Contains(heads, seen), "the head of the witness is not in the reader's file")
	for _, h := range heads {
		must(h.Size < seen.Size || h == seen, "the reader has a newer head of %d entries, or another of that size", h.Size)
	}
	hold(seen.Continues(head, proof))
	must(seen.Size < head.Size || len(proof) == 0, "nothing leads from a head to an equal one")
	return seen.Size
}

// kept returns the reader's own heads of a gate, without those that contradicted one.
func kept(own string, gate op.GateID) (heads []checkpoint.Checkpoint) {
	for line := range strings.Lines(own) {
		var l struct {
			Note    string         `json:"note"`
			Against jsontext.Value `json:"against"`
		}
		hold(json.Unmarshal([]byte(line), &l))
		must(len(l.Against) == 0 || l.Against.Kind() == '{', "a line of the reader's file is none of opsign witness export")
		if h := get(checkpoint.Read(l.Note)); h.Gate == gate && len(l.Against) == 0 {
			heads = append(heads, h)
		}
	}
	return heads
}
