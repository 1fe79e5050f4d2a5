package page

import (
	"net/http"
	"net/url"
	"slices"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/access"
	"gated/internal/web/gates"
)

// groupPath is the page of a group.
const groupPath = "/group"

// kind names what like requests have in common: an operation and its parameters. It is no secret and has no time in it, so the
// address of a group stays.
type kind struct {
	Op  string
	Key string // half of a SHA-256, in hex
}

// kindOf returns the kind of a request. Op is empty of one that is like no other: a rotation, and one that waits for no signature.
func kindOf(r api.Request) kind {
	if r.Op == op.Rotate || r.State != op.StatePending {
		return kind{}
	}
	return kind{r.Op, op.SHA256([]byte(op.ShownQuoted(r.Op) + " " + string(r.Params.Canonical())))[:32]}
}

// link is the address of the group of a kind.
func (k kind) link() string {
	return groupPath + "?" + url.Values{"op": {k.Op}, "key": {k.Key}}.Encode()
}

// like is a request of a group, at its gate.
type like struct {
	gate    gates.Gate
	request api.Request
}

// alike returns the requests of a kind that a session may read, the oldest first. Who is in a group is found here each time, from
// what the gates say; no page says it.
func (c Config) alike(s access.Session, k kind) []like {
	var out []like
	for _, g := range c.Gates.All() {
		if k.Op == "" || !c.may(s, g, "") {
			continue
		}
		for _, r := range g.Requests {
			if r.Op == k.Op && kindOf(r) == k {
				out = append(out, like{g, r})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b like) int { return a.request.CreatedAt.Compare(b.request.CreatedAt) })
	return out
}

// groupOf returns the kind that the address of a page names, and its requests. It refuses, as UnknownTarget, a key that was made
// up in the words of a group that has ended: nobody learns of requests that they may not read.
func (c Config) groupOf(r *http.Request, k kind) (access.Session, []like, error) {
	session, _ := access.SessionOf(r.Context())
	members := c.alike(session, k)
	if len(members) == 0 {
		return session, nil, refusal.New(refusal.UnknownTarget, "no request of this group waits any more").
			WithHint("the first page has all that waits")
	}
	return session, members, nil
}

// ofKind refuses, as StaleTarget, to decide on a request as one of a group that it is not in. An empty key is no group's.
func ofKind(r api.Request, key string) error {
	if key != "" && kindOf(r).Key != key {
		return refusal.New(refusal.StaleTarget, "%s is not one of this group, and was not signed", r.ID).
			WithHint("reload the page and read it again")
	}
	return nil
}
