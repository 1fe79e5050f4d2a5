package sign

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

// maxKeyFile is the largest private key file in bytes; RSA with 16,384 bits has
// 13 KiB.
const maxKeyFile = 64 << 10

// KeyFile returns a signer with the private key in a file. For an encrypted key it calls passphrase once, and
// overwrites the result; passphrase may be nil. NotAllowed: a file that other users can use, as ssh-keygen refuses it.
// Malformed: a file without a key, or a wrong passphrase. WeakKey and UnknownSigner: a key that no gate accepts, and
// the handle of a security key, whose device only OpenSSH can ask. No refusal shows the file's content.
func KeyFile(path string, passphrase func() ([]byte, error)) (Signer, error) {
	content, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(content)
	key, err := ssh.ParsePrivateKey(content)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		if locked.PublicKey != nil && isSecurityKey(locked.PublicKey.Type()) {
			return nil, needsDevice(path)
		}
		key, err = unlock(path, content, passphrase)
	}
	if err != nil {
		return nil, keyFault(path, content, err)
	}
	if r := usable(key.PublicKey()); r != nil {
		return nil, refusal.New(r.Code, "%s: %s", path, r.Detail).WithHint("%s", r.Hint)
	}
	return signer{raw: held{key}}, nil
}

// held is a private key in this process's memory.
type held struct{ ssh.Signer }

func (h held) with(context.Context) ssh.Signer { return h.Signer }

// readKeyFile reads a key file. It checks the permissions of the open file, so that it reads what it checked. A FIFO
// does not block it.
func readKeyFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, refusal.New(refusal.Malformed, "%s is not a regular file", path).
			WithHint("name a private key file, or use --agent")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(content) > maxKeyFile {
		return nil, refusal.New(refusal.Malformed, "%s is larger than a private key", path)
	}
	if isPublicKey(content) { // every user may read a public key
		return nil, refusal.New(refusal.Malformed, "%s is a public key", path).
			WithHint("name the private key (%s), or use --agent", strings.TrimSuffix(path, ".pub"))
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, refusal.New(refusal.NotAllowed, "%s has mode %04o: others than its owner can use it", path, perm).
			WithHint("chmod 600 %s; if others could have read it, make a new key", path)
	}
	return content, nil
}

// isPublicKey also looks for a private key, since the parser skips lines that it
// cannot read.
func isPublicKey(content []byte) bool {
	_, _, _, _, err := ssh.ParseAuthorizedKey(content)
	return err == nil && !bytes.Contains(content, []byte("PRIVATE KEY-----"))
}

func unlock(path string, content []byte, passphrase func() ([]byte, error)) (ssh.Signer, error) {
	if passphrase == nil {
		return nil, refusal.New(refusal.NotAllowed, "%s needs a passphrase and there is nobody to ask", path).
			WithHint("load it with ssh-add and use --agent")
	}
	secret, err := passphrase()
	if err != nil {
		return nil, asRefusal(err, "the passphrase of "+path+" was not given")
	}
	defer clear(secret)
	return ssh.ParsePrivateKeyWithPassphrase(content, secret)
}

// keyFault words an error of the parser, because the parser's text may quote the file.
func keyFault(path string, content []byte, err error) error {
	var r *refusal.Refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, x509.IncorrectPasswordError):
		return refusal.New(refusal.Malformed, "%s: that is not its passphrase", path)
	case strings.Contains(err.Error(), "unhandled key type"):
		if ofSecurityKey(content) {
			return needsDevice(path)
		}
		return refusal.New(refusal.UnknownSigner, "%s: keys of this type cannot sign for a gate", path).WithHint(otherKeyHint)
	default:
		return refusal.New(refusal.Malformed, "%s holds no private key that can be read", path).
			WithHint("name a key that ssh-keygen -y -f %s accepts", path)
	}
}

// ofSecurityKey reports whether an unencrypted key file that does not parse is the handle of a security key.
func ofSecurityKey(content []byte) bool {
	block, _ := pem.Decode(content)
	return block != nil && (bytes.Contains(block.Bytes, []byte(ssh.KeyAlgoSKED25519)) ||
		bytes.Contains(block.Bytes, []byte(ssh.KeyAlgoSKECDSA256)))
}

func needsDevice(path string) error {
	return refusal.New(refusal.UnknownSigner, "%s is the handle of a security key, which only OpenSSH can use", path).
		WithHint("ssh-add %s, and sign with --agent; or opsign show ID --payload > op.json, "+
			"ssh-keygen -Y sign -n ROLE@gated -f %s op.json, and opsign submit op.json --sig op.json.sig", path, path)
}

func unreadable(path string, err error) error {
	why := "it cannot be read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		why = "it may not be read by this user"
	}
	return refusal.New(refusal.Unavailable, "key file %s: %s", path, why)
}
