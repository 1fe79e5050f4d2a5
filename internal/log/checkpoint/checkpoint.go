// Package checkpoint is a gate's signed statement about its whole audit log: the
// number of entries and the root of the Merkle tree over them (RFC 6962, section
// 2.1). The gate's own key signs it. With an old checkpoint, an operator can tell if
// the log was cut, rewritten or rolled back.
//
// The text has the form of checkpoints of transparency logs (C2SP tlog-checkpoint).
// The signature has the form of a signed note (C2SP signed-note).
package checkpoint

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// originPrefix begins the first line of a checkpoint and the name of its key. The
// gate id follows.
const originPrefix = "gated/"

// MaxText is the longest signed checkpoint that Open and Read accept, in bytes.
const MaxText = 4 << 10

// Checkpoint is the state of a gate's log at one moment.
type Checkpoint struct {
	Gate op.GateID
	Size int64     // the number of entries, which is the newest one's number
	Root tlog.Hash // of the tree over their stored texts
}

// Origin names the gate in its checkpoints and keys.
func Origin(gate op.GateID) string { return originPrefix + string(gate) }

// String returns the signed text of three lines: the origin, the size in decimal and
// the root in standard base64.
func (c Checkpoint) String() string {
	return Origin(c.Gate) + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + c.Root.String() + "\n"
}

// Sign returns the signed note.
func (c Checkpoint) Sign(key Signer) (string, error) {
	text, err := note.Sign(&note.Note{Text: c.String()}, key)
	if err != nil {
		return "", fmt.Errorf("sign the head of the audit log: %w", err)
	}
	return string(text), nil
}

// IsKey reports whether a text is a gate's public key in the form for Open.
func IsKey(text string) bool {
	verifier, err := note.NewVerifier(text)
	return err == nil && strings.HasPrefix(verifier.Name(), originPrefix)
}

// Open reads a signed checkpoint and checks it with the gate's public key. If the
// form is not exactly that of Sign, or the key is another gate's, it is Malformed. A
// wrong signature, or one by another key, is BadSignature.
func Open(text, key string) (Checkpoint, error) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return Checkpoint{}, refusal.New(refusal.Malformed, "%q is not the public key of a gate", op.Shown(key))
	}
	if len(text) > MaxText {
		return Checkpoint{}, refusal.New(refusal.Malformed, "the checkpoint has more than %d bytes", MaxText)
	}
	n, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return Checkpoint{}, refusal.New(refusal.BadSignature, "the checkpoint is not signed by %s: %v", op.Shown(key), err)
	}
	c, err := parse(n.Text)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case Origin(c.Gate) != verifier.Name():
		return Checkpoint{}, refusal.New(refusal.Malformed, "the checkpoint is of gate %s, and the key is that of %s",
			c.Gate, op.Shown(verifier.Name()))
	case len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0:
		return Checkpoint{}, refusal.New(refusal.Malformed, "the checkpoint has other signatures beside the gate's")
	case !canonical(n.Sigs[0].Base64):
		return Checkpoint{}, refusal.New(refusal.Malformed,
			"the checkpoint's signature is not written in the one form of its bytes")
	}
	return c, nil
}

// canonical reports whether a text is the one base64 of its bytes. The package note
// also reads texts whose last digit has unused bits. Then two texts of one head
// would look like two heads (RFC 4648 section 3.5).
func canonical(text string) bool {
	raw, err := base64.StdEncoding.DecodeString(text)
	return err == nil && base64.StdEncoding.EncodeToString(raw) == text
}

// Read reads a signed checkpoint without checking its signature. Callers use it to
// name a checkpoint, and to find the key for Open.
func Read(text string) (Checkpoint, error) {
	end := strings.LastIndex(text, "\n\n") // the last one, as in note.Open
	if end < 0 || len(text) > MaxText {
		return Checkpoint{}, malformed("it is no signed note")
	}
	return parse(text[:end+1])
}

func malformed(why string) error {
	return refusal.New(refusal.Malformed, "this is no checkpoint of a gate: %s", why)
}

// parse reads the three lines in the form of String.
func parse(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return Checkpoint{}, malformed("it has not three lines")
	}
	id, ok := strings.CutPrefix(lines[0], originPrefix)
	c := Checkpoint{Gate: op.GateID(id)}
	if !ok || !c.Gate.Valid() {
		return Checkpoint{}, malformed("its first line does not name one")
	}
	var err error
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 1 || strconv.FormatInt(c.Size, 10) != lines[1] {
		return Checkpoint{}, malformed("its second line is not a number of entries")
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return Checkpoint{}, malformed("its third line is not a root hash")
	}
	copy(c.Root[:], root)
	if c.String() != text {
		return Checkpoint{}, malformed("it is not in the one form that a gate writes")
	}
	return c, nil
}
