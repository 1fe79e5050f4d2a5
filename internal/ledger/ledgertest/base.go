package ledgertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"reflect"
	"testing"

	"gated/internal/ledger"
)

func base(era, n uint64, body []byte) ledger.Base {
	return ledger.Base{Number: n, Era: era, Digest: ledger.Digest{byte(n), 1, 255}, Body: sha256.Sum256(body), Signature: []byte{0, byte(n), 1}}
}

// hasBase checks the base, its body, and the groups after it.
func hasBase(t *testing.T, e ledger.Engine, expected ledger.Base, body []byte, groups ...ledger.Group) {
	t.Helper()
	b, err := e.Base(context.Background())
	want(t, err, nil)
	if !reflect.DeepEqual(b, expected) {
		t.Fatalf("the base is %v, not %v", b, expected)
	}
	have, err := e.BaseBody(context.Background(), b)
	want(t, err, nil)
	if !bytes.Equal(have, body) {
		t.Fatalf("the base has %d bytes, not %d", len(have), len(body))
	}
	has(t, e, b.Number, 10, groups...)
	has(t, e, 0, 10, groups...)
	p, err := e.Position(context.Background())
	want(t, err, nil)
	if p.Last != b.Number+uint64(len(groups)) {
		t.Fatalf("the position is %+v", p)
	}
}

func compacts(t *testing.T, w World) {
	e, other := w.Member(t), w.Member(t)
	none, err := e.Base(context.Background())
	want(t, err, nil)
	if none.Number != 0 {
		t.Fatalf("an empty ledger has a base of group %d", none.Number)
	}
	era := begin(t, e)
	for n := uint64(1); n <= 5; n++ {
		want(t, e.Append(group(era, n, "text")), nil)
	}
	want(t, other.PutBase(base(era, 3, []byte("three")), []byte("three"), era), nil)
	hasBase(t, e, base(era, 3, []byte("three")), []byte("three"), group(era, 4, "text"), group(era, 5, "text"))
	want(t, e.Append(group(era, 6, "text")), nil)

	large := bytes.Repeat([]byte("all rows\x00\xff"), 1<<20) // more than one piece
	want(t, other.PutBase(base(era, 6, large), large, era), nil)
	hasBase(t, e, base(era, 6, large), large)
	_, err = e.BaseBody(context.Background(), base(era, 3, []byte("three")))
	want(t, err, ledger.ErrUnavailable)

	want(t, e.Append(group(era, 6, "again")), ledger.ErrUnavailable)
	want(t, e.Append(group(era, 8, "a gap")), ledger.ErrUnavailable)
	want(t, e.Append(group(era, 7, "text")), nil)
	hasBase(t, other, base(era, 6, large), large, group(era, 7, "text"))
}

func refusesBases(t *testing.T, w World) {
	e := w.Member(t)
	old := begin(t, e)
	for n := uint64(1); n <= 3; n++ {
		want(t, e.Append(group(old, n, "text")), nil)
	}
	era := begin(t, w.Member(t))
	body := []byte("body")
	want(t, e.PutBase(base(old, 2, body), body, old), ledger.ErrFenced)
	want(t, e.PutBase(base(old, 4, body), body, era), ledger.ErrUnavailable)
	has(t, e, 0, 10, group(old, 1, "text"), group(old, 2, "text"), group(old, 3, "text"))
	want(t, e.PutBase(base(old, 2, body), body, era), nil)
	for _, n := range []uint64{1, 2} {
		want(t, e.PutBase(base(old, n, []byte("another")), []byte("another"), era), nil)
		hasBase(t, e, base(old, 2, body), body, group(old, 3, "text"))
	}
}

func settlesBases(t *testing.T, w World) {
	e, other := w.Member(t), w.Member(t)
	era := begin(t, e)
	want(t, e.Append(group(era, 1, "first")), nil)
	want(t, e.Append(group(era, 2, "second")), nil)
	want(t, other.PutBase(base(era, 2, nil), nil, era), nil)
	kept, err := e.Settle(era, 2)
	want(t, err, nil)
	if !kept {
		t.Fatal("settled as not kept")
	}
	_, err = e.Settle(era, 1)
	want(t, err, ledger.ErrFenced) // what came after it is not of a daemon that is in doubt
	want(t, e.Append(group(era, 3, "third")), nil)
}

func mends(t *testing.T, w World) {
	e, other := w.Member(t), w.Member(t)
	ctx := context.Background()
	old := begin(t, e)
	for n := uint64(1); n <= 3; n++ {
		want(t, e.Append(group(old, n, "text")), nil)
	}
	body := []byte("body")
	want(t, other.Mend(ctx, ledger.Position{Era: old - 1, Last: 3}, old+5, base(old+3, 9, body), body), ledger.ErrFenced)
	has(t, e, 3, 10)
	want(t, other.Mend(ctx, ledger.Position{Era: old, Last: 2}, old+2, base(old+3, 9, body), body), ledger.ErrFenced)
	has(t, e, 3, 10)
	at, err := e.Position(ctx)
	want(t, err, nil)
	want(t, other.Mend(ctx, at, old+5, base(old+3, 9, body), body), nil)
	hasBase(t, e, base(old+3, 9, body), body)
	want(t, e.Append(group(old, 4, "too late")), ledger.ErrFenced)
	want(t, e.PutBase(base(old, 3, body), body, old), ledger.ErrFenced)
	era := begin(t, other)
	if era != old+6 {
		t.Fatalf("era %d follows on %d", era, old+5)
	}
	want(t, other.Append(group(era, 10, "next")), nil)
	hasBase(t, e, base(old+3, 9, body), body, group(era, 10, "next"))
	want(t, other.Mend(ctx, ledger.Position{Era: era, Last: 10}, era+1, base(era, 4, body), body), nil) // of a lower number, too
	hasBase(t, e, base(era, 4, body), body)
}
