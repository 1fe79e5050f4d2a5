package checkpoint

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/armor"
	"gated/internal/base/refusal"
)

// SSHNamespace is the namespace of a head's SSH signature. No role of a gate has it, because it does not end with @gated.
const SSHNamespace = "head@log.gated"

// SignSSH returns the armored SSH signature over the checkpoint's text (OpenSSH's PROTOCOL.sshsig), so that ssh-keygen alone can check
// it. It is by the key that signs the note. If the key is another gate's, the error is TargetMismatch.
func (c Checkpoint) SignSSH(k Key) (string, error) {
	if !k.Of(c.Gate) {
		return "", refusal.New(refusal.TargetMismatch, "the key is of gate %s, and the head is of gate %s", k.Gate(), c.Gate)
	}
	private, err := k.private()
	if err != nil {
		return "", err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return "", err
	}
	made, err := sshsig.Sign(strings.NewReader(c.String()), signer, sshsig.HashSHA512, SSHNamespace)
	if err != nil {
		return "", err
	}
	return armor.Signature(made.Marshal()), nil
}

// private reads the Ed25519 key of a key file, PRIVATE+KEY+NAME+HASH+KEY: a byte 1, then the seed (C2SP signed-note).
func (k Key) private() (ed25519.PrivateKey, error) {
	line, _, _ := strings.Cut(k.text, "\n")
	parts := strings.SplitN(line, "+", 5)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(parts) != 5 || len(raw) != 1+ed25519.SeedSize || raw[0] != 1 {
		return nil, fmt.Errorf("the key of gate %s is no Ed25519 key", k.Gate())
	}
	return ed25519.NewKeyFromSeed(raw[1:]), nil
}
