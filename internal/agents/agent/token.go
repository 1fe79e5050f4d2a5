package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"gated/internal/base/op"
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
	e := &entry{Registration: Registration{Name: name, UID: by.UID, Token: hashOf(token), At: r.cfg.Now().UTC()}}
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
