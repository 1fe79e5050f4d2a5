package vectors

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

// entry is an entry of the log of the cases; seq is from 1.
func entry(seq int64) string { return fmt.Sprintf(`{"seq":%d,"v":2,"kind":"planned"}`, seq) }

// hashes are those of a log.
type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, i := range indexes {
		out = append(out, h[i])
	}
	return out, nil
}

// logOf is a log of that many entries.
func logOf(t *testing.T, size int64) (h hashes) {
	t.Helper()
	for i := range size {
		h = append(h, must.Get(tlog.StoredHashes(i, []byte(entry(i+1)), h))(t)...)
	}
	return h
}

// merkles makes the cases of merkle.json.
func merkles(t *testing.T) (out []Vector) {
	log := logOf(t, 13)
	root := func(size int64) string { return must.Get(tlog.TreeHash(size, log))(t).String() }
	has := func(seq, size int64) *merkleCase {
		proof := must.Get(tlog.ProveRecord(size, seq-1, log))(t)
		return &merkleCase{Name: Name(fmt.Sprintf("entry %d of %d", seq, size)), Seq: seq, Entry: entry(seq), Size: size, Root: root(size), Proof: checkpoint.EncodeHashes(proof)}
	}
	goesOn := func(old, size int64) *merkleCase {
		proof := must.Get(tlog.ProveTree(size, old, log))(t)
		return &merkleCase{Name: Name(fmt.Sprintf("from %d to %d", old, size)), Old: old, OldRoot: root(old), Size: size, Root: root(size), Proof: checkpoint.EncodeHashes(proof)}
	}
	for _, c := range []*merkleCase{has(1, 1), has(1, 2), has(3, 3), has(5, 7), has(7, 7), has(8, 8), has(13, 13), goesOn(1, 2), goesOn(3, 7), goesOn(4, 7), goesOn(6, 13), goesOn(8, 13), goesOn(12, 13)} {
		c.Outcome = Accepted(t, struct{}{})
		out = append(out, c)
	}
	same := &merkleCase{Name: "from 7 to 7", Old: 7, OldRoot: root(7), Size: 7, Root: root(7), Proof: []string{}, Outcome: Accepted(t, struct{}{})}
	out = append(out, same)
	bad := func(n, why string, code refusal.Code, c *merkleCase, change func(c *merkleCase)) {
		change(c)
		c.Name, c.Outcome = Name(n), Refuses("", code, why)
		out = append(out, c)
	}
	mismatch := refusal.BindingMismatch
	bad("another entry", "the leaf is another one", mismatch, has(5, 7), func(c *merkleCase) { c.Entry += " " })
	bad("another number", "the leaf is at another place", mismatch, has(5, 7), func(c *merkleCase) { c.Seq = 6 })
	bad("an entry behind the end", "a head has its entries alone", mismatch, has(7, 7), func(c *merkleCase) { c.Seq = 8 })
	bad("another root", "the proof leads to another root", mismatch, has(5, 7), func(c *merkleCase) { c.Root = root(6) })
	bad("a proof without its last hash", "a proof has as many hashes as its place asks for", mismatch, has(5, 7), func(c *merkleCase) { c.Proof = c.Proof[:len(c.Proof)-1] })
	bad("a proof with a hash more", "a proof has as many hashes as its place asks for", mismatch, has(5, 7), func(c *merkleCase) { c.Proof = append(c.Proof, c.Root) })
	bad("hashes in another order", "the proof leads to another root", mismatch, has(5, 7), func(c *merkleCase) { c.Proof[0], c.Proof[1] = c.Proof[1], c.Proof[0] })
	bad("a hash of 31 bytes", "a hash has 32 bytes", refusal.Malformed, has(5, 7), func(c *merkleCase) { c.Proof[0] = b64(make([]byte, 31)) })
	bad("a hash in another spelling", "base64 has one spelling", refusal.Malformed, has(5, 7), func(c *merkleCase) { c.Proof[0] = strings.TrimRight(c.Proof[0], "=") })
	bad("a log that was rewritten", "the older root is another one", mismatch, goesOn(3, 7), func(c *merkleCase) { c.OldRoot = root(4) })
	bad("a log that was cut", "the newer log is shorter", mismatch, goesOn(3, 7), func(c *merkleCase) { c.Old, c.OldRoot, c.Size, c.Root = c.Size, c.Root, c.Old, c.OldRoot })
	bad("two roots of one size", "one size has one root", mismatch, goesOn(3, 7), func(c *merkleCase) { c.Old, c.Proof = 7, []string{} })
	bad("no proof from 3 to 7", "a proof has as many hashes as its place asks for", mismatch, goesOn(3, 7), func(c *merkleCase) { c.Proof = []string{} })
	bad("no proof from 4 to 7", "a proof has as many hashes as its place asks for", mismatch, goesOn(4, 7), func(c *merkleCase) { c.Proof = []string{} })
	bad("a consistency proof with a hash more", "a proof has as many hashes as its place asks for", mismatch, goesOn(3, 7), func(c *merkleCase) { c.Proof = append(c.Proof, c.Root) })
	return out
}

// signerOf is a gate's key of a fixed seed, in a name of its own.
func signerOf(t *testing.T, seed, name string) (note.Signer, string) {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(seed))
	public := must.Get(note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey)))(t)
	hash := strings.Split(public, "+")[1]
	signer := must.Get(note.NewSigner("PRIVATE+KEY+" + name + "+" + hash + "+" + b64(append([]byte{1}, private.Seed()...))))(t)
	return signer, public
}

// heads makes the cases of head.json.
func heads(t *testing.T) (out []Vector) {
	name := checkpoint.Origin(gateID)
	signer, key := signerOf(t, strings.Repeat("g", 32), name)
	stranger, strangers := signerOf(t, strings.Repeat("s", 32), name)
	_, others := signerOf(t, strings.Repeat("g", 32), "gated/ffffffffffffffffffffffffffffffff")
	root := must.Get(tlog.TreeHash(7, logOf(t, 7)))(t)
	text := checkpoint.Checkpoint{Gate: gateID, Size: 7, Root: root}.String()
	signed := func(text string, by ...note.Signer) string {
		return string(must.Get(note.Sign(&note.Note{Text: text}, by...))(t))
	}
	good := signed(text, signer)
	out = append(out, &headCase{Name: "a head of seven entries", Key: key, Note: good, Outcome: Accepted(t, map[string]any{"gate": gateID, "size": 7, "root": root.String()})})
	bad := func(n, why string, code refusal.Code, key, note string) {
		out = append(out, &headCase{Name: Name(n), Key: key, Note: note, Outcome: Refuses("", code, why)})
	}
	malformed, wrong := refusal.Malformed, refusal.BadSignature
	bad("another key of the gate", "another key signed it", wrong, strangers, good)
	bad("signed by another key", "another key signed it", wrong, key, signed(text, stranger))
	bad("another size", "the text was signed otherwise", wrong, key, strings.Replace(good, "\n7\n", "\n8\n", 1))
	bad("the key of another gate", "a note is signed in the name of the key", wrong, others, good)
	bad("a key whose hash is another", "the hash is that of name and key", malformed, strings.Replace(key, "+", "+0", 1), good)
	digit := map[bool]string{true: "1", false: "0"}[strings.Split(key, "+")[1][0] == '0']
	bad("a key whose hash has another digit", "the hash is that of name and key", malformed, name+"+"+digit+strings.SplitN(key, "+", 2)[1][1:], good)
	bad("no key", "a key is gated/GATEID+HASH+KEY", malformed, "", good)
	bad("two signatures", "a head has one signature", malformed, key, signed(text, signer, stranger))
	bad("a fourth line", "the text has three lines", malformed, key, signed(text+"extension\n", signer))
	bad("a size with a leading zero", "a number has one spelling", malformed, key, signed(strings.Replace(text, "\n7\n", "\n07\n", 1), signer))
	bad("a root of 31 bytes", "a root has 32 bytes", malformed, key, signed(strings.Replace(text, root.String(), b64(root[:31]), 1), signer))
	bad("a head above 4 KiB", "a head has at most 4 KiB", malformed, key, signed(text+strings.Repeat("x\n", 2<<10), signer))
	bad("another origin", "the origin is gated/ and the gate's id", malformed, key, signed(strings.Replace(text, "gated/", "other/", 1), signer))
	bad("no signature", "nothing signed it", wrong, key, text+"\n")
	bad("text behind it", "it is no signed note", wrong, key, good+"more\n")
	bad("CRLF", "it is no signed note", wrong, key, string(bytes.ReplaceAll([]byte(good), []byte("\n"), []byte("\r\n"))))
	return out
}
