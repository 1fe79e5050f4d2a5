package sign

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

// maxPublicFile is the largest public key file in bytes. A certificate of an RSA key of 16,384 bits, by a CA of the
// same size, has 12 KiB.
const maxPublicFile = 64 << 10

// PublicKeyFile reads a public key or certificate file as ssh-keygen writes it. If it has several, it reads the first,
// as OpenSSH does. It refuses as Unavailable a file that cannot be read, and as Malformed one without a public key.
func PublicKeyFile(path string) (Identity, error) {
	id, _, err := readPublic(path)
	return id, err
}

// readPublic also reports whether the file holds a second key.
func readPublic(path string) (id Identity, more bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not block it
	if err != nil {
		return Identity{}, false, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxPublicFile))
	if err != nil {
		return Identity{}, false, unreadable(path, err)
	}
	key, comment, _, rest, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return Identity{}, false, refusal.New(refusal.Malformed, "%s holds no public key that can be read", path)
	}
	_, _, _, _, err = ssh.ParseAuthorizedKey(rest)
	return identify(key.Marshal(), comment), err == nil, nil
}
