package store

import (
	"context"
	"errors"
)

// Peek runs fn on one snapshot of a gate's database of any schema, even a newer program's. fn gets the schema. The
// tables may differ from this program's, so fn returns an error for what it cannot read. Peek creates and changes
// nothing. A file that is damaged, or not a gate's, is ErrCorrupt.
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
