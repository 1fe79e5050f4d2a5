package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"gated/internal/base/store"
)

// baseNamespace begins every text that a gate's key signs for a base.
const baseNamespace = "gated ledger base v1\x00"

// Base stands for all groups up to a number. Its body has all rows that they make.
type Base struct {
	Number    uint64
	Era       uint64 // of the group of that number
	Digest    Digest // of that group, and so of all before it
	Body      Digest // SHA-256 of the rows, compressed
	Signature []byte // by the gate's key, over all of the above
}

var (
	// ErrBase: the gate's key did not sign the base, or its rows.
	ErrBase = errors.New("the gate's key did not sign the ledger's base")
	// ErrBehind: the groups that the database here lacks are not in the ledger any more.
	ErrBehind = errors.New("this member is too far behind: the ledger does not have its next group any more")
)

// baseMessage is what is signed: the namespace, the gate's id behind its length, number, era, digest, and the digest of
// the body. Numbers are 8 bytes, big-endian.
func baseMessage(gate string, b Base) []byte {
	m := append([]byte(baseNamespace), byte(len(gate)))
	m = append(m, gate...)
	m = binary.BigEndian.AppendUint64(m, b.Number)
	m = binary.BigEndian.AppendUint64(m, b.Era)
	m = append(m, b.Digest[:]...)
	return append(m, b.Body[:]...)
}

// signBase makes a base of all rows at a place.
func signBase(gate string, key Signer, image store.Kept) (b Base, body []byte, err error) {
	if body, err = encodeBody(baseForm, image.Schema, image.Changes); err != nil {
		return b, nil, err
	}
	b = Base{Number: image.Number, Era: image.Era, Digest: image.Digest, Body: sha256.Sum256(body)}
	if b.Signature, err = key.Sign(baseMessage(gate, b)); err != nil {
		return b, nil, fmt.Errorf("sign the base of group %d: %w", b.Number, err)
	}
	return b, body, nil
}

// VerifyBase checks that the gate's key signed a base. BaseBody's answer has to be checked beside it.
func VerifyBase(gate string, key Verifier, b Base) error {
	if b.Number == 0 || b.Era == 0 || !key.Verify(baseMessage(gate, b), b.Signature) {
		return fmt.Errorf("%w: of group %d", ErrBase, b.Number)
	}
	return nil
}

func (b Base) place() store.Place { return store.Place{Number: b.Number, Era: b.Era, Digest: b.Digest} }

// rowsOf reads and checks the rows of a base.
func rowsOf(ctx context.Context, e Engine, gate string, key Verifier, b Base) (k store.Kept, err error) {
	if err := VerifyBase(gate, key, b); err != nil {
		return k, err
	}
	body, err := e.BaseBody(ctx, b)
	if err != nil {
		return k, fmt.Errorf("read the ledger's base of group %d: %w", b.Number, err)
	}
	if sha256.Sum256(body) != b.Body {
		return k, fmt.Errorf("%w: of group %d has other rows", ErrBase, b.Number)
	}
	k = store.Kept{Place: b.place(), Base: true}
	if k.Schema, k.Changes, err = decodeBody(baseForm, body); err != nil {
		err = fmt.Errorf("the base of group %d: %w", b.Number, err)
	}
	return k, err
}

// begin is the base from which a database without groups begins, if the ledger does not have the next group. Without a base
// there is none. ErrBehind if the database has groups, and so cannot begin anew.
func begin(ctx context.Context, e Engine, gate string, key Verifier, here store.Place) ([]store.Kept, error) {
	b, err := e.Base(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger's base: %w", err)
	}
	if b.Number <= here.Number {
		return nil, nil
	}
	if here.Number > 0 {
		return nil, behind(here, b)
	}
	k, err := rowsOf(ctx, e, gate, key, b)
	if err != nil {
		return nil, err
	}
	return []store.Kept{k}, nil
}

func behind(here store.Place, b Base) error {
	return fmt.Errorf("%w: it begins with all rows as of group %d, and the database here is at group %d", ErrBehind, b.Number, here.Number)
}

// sameBase checks a database whose group the ledger does not have, by the base.
func (s Settings) sameBase(ctx context.Context, here store.Place) error {
	b, err := s.Engine.Base(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's base: %w", err)
	}
	if b.Number < here.Number {
		return fmt.Errorf("%w: group %d is missing", ErrLost, here.Number)
	}
	if err := VerifyBase(s.Gate, s.Verifier, b); err != nil {
		return err
	}
	switch {
	case b.Number > here.Number:
		return behind(here, b)
	case b.place() != here:
		return fmt.Errorf("%w: group %d", ErrForked, here.Number)
	}
	return nil
}

// Compact makes all rows of a database the base of the ledger, so that the groups before it are not needed any more. The
// signature says that they are what the groups make. Dropped is how many groups the ledger had up to there.
func Compact(ctx context.Context, s Settings, image store.Kept) (b Base, dropped uint64, err error) {
	p, err := s.known(ctx, image.Place)
	if err != nil {
		return b, 0, err
	}
	was, err := s.Engine.Base(ctx)
	if err != nil {
		return b, 0, fmt.Errorf("read the ledger's base: %w", err)
	}
	if was.Number == image.Number {
		return was, 0, nil
	}
	b, body, err := signBase(s.Gate, s.Signer, image)
	if err != nil {
		return b, 0, err
	}
	return b, b.Number - was.Number, s.Engine.PutBase(b, body, p.Era)
}

// Mend makes all rows of a database all that the ledger has, in an era above all that is known. It is for a ledger that
// lost groups, and for the caller to know that the database has every decision. From is how far the ledger was when the
// caller compared it with the database: ErrFenced if another member changed it since. It returns the era.
func Mend(ctx context.Context, s Settings, from Position, image store.Kept, began uint64) (era uint64, err error) {
	if from.Era == Ended {
		return 0, ErrEnded
	}
	b, body, err := signBase(s.Gate, s.Signer, image)
	if err != nil {
		return 0, err
	}
	era = max(from.Era, image.Era, began) + 1
	return era, s.Engine.Mend(ctx, from, era, b, body)
}

// MaxRows bounds the rows of a base, in bytes, before they are compressed.
const MaxRows = maxChanges
