package mint

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The hash algorithms of SSHSIG.
const (
	SHA512 = "sha512"
	SHA256 = "sha256"
)

// Signature is the parts of an SSHSIG blob (PROTOCOL.sshsig), so that a test can
// change any of them, before it is signed or afterwards.
type Signature struct {
	Magic     string
	Version   uint32
	Key       []byte // the public key's blob, or a certificate's
	Namespace string
	Reserved  string
	Hash      string
	Format    string // of the inner signature
	Value     []byte // of the inner signature
	Rest      []byte // what follows Value in the inner signature: a security key's flags and counter
	Trailing  []byte // what follows the blob's last field
}

// Sign signs payload as ssh-keygen -Y sign does.
func Sign(t TB, key Key, namespace string, payload []byte) Signature {
	t.Helper()
	return Unsigned(key.Blob(), namespace).By(t, key, payload)
}

// SignWith signs payload with a key that has a certificate, as ssh-keygen -Y
// sign does when it is given one.
func SignWith(t TB, cert Cert, key Key, namespace string, payload []byte) Signature {
	t.Helper()
	return Unsigned(cert.Blob(t), namespace).By(t, key, payload)
}

// Unsigned returns a signature without its inner part. The blob is that of a
// public key or a certificate; the hash is sha512.
func Unsigned(blob []byte, namespace string) Signature {
	return Signature{Magic: "SSHSIG", Version: 1, Key: blob, Namespace: namespace, Hash: SHA512}
}

// By signs payload for what the parts say, whether that makes sense or not, with
// the key's usual algorithm.
func (s Signature) By(t TB, key Key, payload []byte) Signature {
	t.Helper()
	return s.As(t, key, "", payload)
}

// As is By with an algorithm of the key's type.
func (s Signature) As(t TB, key Key, algorithm string, payload []byte) Signature {
	t.Helper()
	inner, err := key.SignWithAlgorithm(nil, s.signed(payload), algorithm)
	if err != nil {
		t.Fatalf("mint: %s: %v", key.Name, err)
	}
	s.Format, s.Value, s.Rest = inner.Format, inner.Blob, inner.Rest
	return s
}

// signed returns the bytes that are signed. A hash that there is not counts as
// sha512.
func (s Signature) signed(payload []byte) []byte {
	digest := sha512.Sum512(payload)
	hash := digest[:]
	if s.Hash == SHA256 {
		short := sha256.Sum256(payload)
		hash = short[:]
	}
	return slices.Concat([]byte("SSHSIG"), Strings([]byte(s.Namespace), []byte(s.Reserved), []byte(s.Hash), hash))
}

// Inner returns the signature proper, without its length.
func (s Signature) Inner() []byte { return slices.Concat(String(s.Format), String(s.Value), s.Rest) }

// Fields returns the blob's fields in their order, each with its length, but
// for what is after the last.
func (s Signature) Fields() [][]byte {
	return [][]byte{
		[]byte(s.Magic), Uint32(s.Version), String(s.Key), String(s.Namespace), String(s.Reserved), String(s.Hash),
		String(s.Inner()),
	}
}

// Blob returns the SSHSIG blob.
func (s Signature) Blob() []byte { return slices.Concat(append(s.Fields(), s.Trailing)...) }

// Armored returns the signature as ssh-keygen writes it.
func (s Signature) Armored() string { return Armor(s.Blob(), 70) }

// Parsed returns the inner signature as libraries have it.
func (s Signature) Parsed() *ssh.Signature {
	return &ssh.Signature{Format: s.Format, Blob: s.Value, Rest: s.Rest}
}

// Armor returns a blob between SSHSIG's markers, in lines of that many
// characters.
func Armor(blob []byte, width int) string {
	text := base64.StdEncoding.EncodeToString(blob)
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for len(text) > 0 {
		n := min(width, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return b.String()
}
