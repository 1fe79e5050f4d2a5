package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// tokenBytes is the size of a token in random bytes.
const tokenBytes = 32

// TokenLen is the length of a token as it is written: base64url, unpadded.
const TokenLen = (tokenBytes*8 + 5) / 6

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// RegisterToken binds a name to a new token instead of a process, for callers whose processes the daemon cannot see. It
// returns the token once and keeps only its hash. The token counts only for callers of the same uid. commit and the
// refusals are as for Register.
func (r *Registry) RegisterToken(ctx context.Context, by *Peer, name string, commit Commit) (Registration, string, error) {
	if err := op.CheckName(name); err != nil {
		return Registration{}, "", err
	}
	b := make([]byte, tokenBytes)
	rand.Read(b) // never fails (crypto/rand)
	token := base64.RawURLEncoding.EncodeToString(b)
	e := &entry{Registration: Registration{Name: name, UID: by.UID, Member: r.cfg.Member, Token: hashOf(token), At: r.cfg.Now().UTC()}}
	if err := r.admitToken(e); err != nil {
		return Registration{}, "", err
	}
	reg, err := r.keep(ctx, e, commit)
	if err != nil {
		return Registration{}, "", err
	}
	return reg, token, nil
}

func (r *Registry) admitToken(e *entry) error {
	r.admission.Lock()
	defer r.admission.Unlock()
	r.mu.RLock()
	err := r.room(e.Name, e.UID, true)
	r.mu.RUnlock()
	if err != nil {
		return err
	}
	return r.enter(e)
}

// WhoByToken returns the registration of a token, if the peer has the uid that registered it. The caller must refuse a
// wrong token, and must not look the peer up by its process instead.
func (r *Registry) WhoByToken(p *Peer, token string) (reg Registration, ok bool) {
	if len(token) != TokenLen {
		return Registration{}, false
	}
	// The look-up is by digest, so that its time does not show the token.
	hash := hashOf(token)
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.byToken[hash]
	if e == nil || !e.committed || e.UID != p.UID {
		return Registration{}, false
	}
	return e.Registration, true
}

// WriteTokenFile stores a token in a new file that only its owner may read. An existing file or link is an error
// (fs.ErrExist).
func WriteTokenFile(path, token string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

const madeAnew = "gated agent register NAME --token-file FILE makes one"

// ReadTokenFile returns the token in a file. It refuses as NotAllowed a file that others may read or write, another
// user's file, a link, or anything but a regular file. A file without a token is Malformed. No error shows its content.
func ReadTokenFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return "", refusal.New(refusal.NotAllowed, "%s is a symbolic link", path).WithHint("name the file itself")
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", refusal.New(refusal.NotAllowed, "%s is no regular file", path).WithHint(madeAnew)
	case st.Uid != uint32(os.Geteuid()):
		return "", refusal.New(refusal.NotAllowed, "%s is uid %d's", path, st.Uid).WithHint(madeAnew)
	case st.Mode&0o077 != 0:
		return "", refusal.New(refusal.NotAllowed, "%s may be read by others", path).WithHint("chmod 600 %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, TokenLen+2))
	if err != nil {
		return "", err
	}
	token := strings.TrimSuffix(string(b), "\n")
	if len(token) != TokenLen {
		return "", refusal.New(refusal.Malformed, "%s holds no token", path).WithHint(madeAnew)
	}
	return token, nil
}
