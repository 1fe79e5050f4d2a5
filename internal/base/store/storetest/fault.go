package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"gated/internal/base/store"
)

// Fault fails one statement of a store. The zero Fault fails none.
type Fault struct {
	left atomic.Int64
	came atomic.Bool
}

// ErrFault is what the failing statement returns.
var ErrFault = errors.New("this statement was to fail")

// Next is Options.Fails of the store.
func (f *Fault) Next() error {
	if f.left.Add(-1) != 0 {
		return nil
	}
	f.came.Store(true)
	return ErrFault
}

// During runs an operation with its nth statement failing, and reports whether that statement came.
func (f *Fault) During(n int64, do func() error) (came bool, err error) {
	f.left.Store(n)
	err = do()
	f.left.Store(0)
	return f.came.Swap(false), err
}

// EachFails asks each question, by its name, with its first statement failing, with its second, and so on. The question has
// to fail with want, and to be answered once no statement of it fails.
func (f *Fault) EachFails(t testing.TB, questions map[string]func() error, want error) {
	t.Helper()
	for name, ask := range questions {
		for n := int64(1); ; n++ {
			came, err := f.During(n, ask)
			switch {
			case came && !errors.Is(err, want):
				t.Fatalf("statement %d of %s failed, and its answer is %v", n, name, err)
			case !came && err != nil:
				t.Fatalf("%s: %v", name, err)
			case !came && n == 1:
				t.Fatalf("%s asks the store nothing", name)
			}
			if !came {
				break
			}
		}
	}
}

// EachReadFails is EachFails for what a view of a store reads.
func (f *Fault) EachReadFails(t testing.TB, s *store.Store, reads map[string]func(*store.Tx) error) {
	t.Helper()
	questions := map[string]func() error{}
	for name, read := range reads {
		questions[name] = func() (err error) {
			_ = s.View(context.WithoutCancel(t.Context()), func(tx *store.Tx) error { err = read(tx); return err }) // read's own error counts
			return err
		}
	}
	f.EachFails(t, questions, ErrFault)
}
