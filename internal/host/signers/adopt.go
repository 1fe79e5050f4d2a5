package signers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// Adoption is a file that becomes the list of signers, or became it.
type Adoption struct {
	File    string
	Epoch   int64     // that it makes; of an Unedited file, the one in force
	Digest  string    // SHA-256 of the file, lower-case hex
	Changes []string  // what it adds (+) and removes (-), without keys
	Emptied []op.Role // in which somebody could sign, and nobody could any more

	Unedited bool // the file says what is in force, and nothing was done
}

// Adopt makes the text of a file the newest version of the list, by uid by. agree
// is asked with what would change; its error is returned, and nothing has changed
// then. A file by which nobody could sign as operational is BadParams.
func Adopt(ctx context.Context, s *store.Store, id op.GateID, file string, text []byte, by int, at time.Time, agree func(Adoption) error) (Adoption, error) {
	newest, err := Newest(ctx, s)
	if err != nil {
		return Adoption{}, err
	}
	next, err := Load(file, text)
	if err != nil {
		return Adoption{}, err
	}
	a := Adoption{File: file, Epoch: newest.Epoch, Digest: next.Digest(), Changes: []string{}, Emptied: []op.Role{}}
	was, err := Load("the list of signers in the database", newest.Text)
	if err != nil {
		return a, err
	}
	if a.Unedited = newest.Epoch > 0 && a.Digest == was.Digest(); a.Unedited {
		return a, nil
	}
	if len(next.Could(op.Operational, op.TouchNone, false, at)) == 0 {
		return a, noOperator(file)
	}
	c := Compare(was, next)
	a.Epoch, a.Changes, a.Emptied = newest.Epoch+1, c.Lines(), emptied(was, next, at)
	if err := agree(a); err != nil {
		return a, err
	}
	l := List{Trust: next, Version: journal.TrustVersion{Epoch: a.Epoch, Text: text, How: fmt.Sprintf(howByRoot, by), At: at}}
	return a, s.Update(ctx, func(tx *store.Tx) error { return l.Record(tx, fmt.Sprintf("uid:%d", by), id, c) })
}

// noOperator refuses a file by which no destructive step could be approved any
// more: a list that was cut off looks like that.
func noOperator(path string) error {
	return refusal.New(refusal.BadParams, "by %s nobody could sign as operational now", path).
		WithHint("list an operator's key that is valid now, for namespaces=%q", op.Operational.Namespace())
}

// emptied returns the roles of a list in which somebody could sign at that time,
// and by the next list nobody could, in their order.
func emptied(was, next *authz.Trust, at time.Time) []op.Role {
	out := []op.Role{}
	for _, l := range was.Signers() {
		for _, role := range l.Roles {
			if len(was.Could(role, op.TouchNone, false, at)) > 0 && len(next.Could(role, op.TouchNone, false, at)) == 0 && !slices.Contains(out, role) {
				out = append(out, role)
			}
		}
	}
	return out
}
