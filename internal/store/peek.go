package store

import (
	"context"
	"errors"
)

// Peek runs fn on one snapshot of a gate's database of any schema, which it is
// told, also of one that a newer program wrote. The tables may be other ones
// than this program knows: what fn cannot read is its error. Nothing is created
// or changed. A file that is damaged or no gate's is ErrCorrupt.
func Peek(ctx context.Context, path string, fn func(schema int, tx *Tx) error) error {
	s, err := newStore(path, Options{})
	if err != nil {
		return err
	}
	schema, err := readVersion(ctx, s.path)
	if err != nil {
		return err
	}
	err = s.View(ctx, func(tx *Tx) error { return fn(schema, tx) })
	return errors.Join(err, s.Close())
}
