package service

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
)

// Members says what of a gate with callers of other members is of this host. The zero value is a gate of this host alone.
type Members struct {
	Self   string                       // as of op.Requester.Set
	Names  []string                     // of all members
	Scopes map[string]map[string]string // shared scopes by name: the directory on each member
	Active Active                       // nil on the member that decides
}

// Active is the member that decides, as a standby asks it about agents of the standby's host. Errors are refusals.
type Active interface {
	// Enrol stores a registration that the standby checked. Once more, it returns the same number.
	Enrol(ctx context.Context, by op.Requester, name string, to Bound) (id int64, err error)
	// Ended ends what is bound to a registration, builder#7, of that uid. One that is gone is no error.
	Ended(ctx context.Context, uid uint32, who string) error
	// GiveUp takes a name away for a caller of the standby's host.
	GiveUp(ctx context.Context, by op.Requester, name string) (api.Agent, error)
}

// Bound is what a name is bound to: a process of the member's host, or a token's hash.
type Bound struct {
	PID   int
	Start uint64 // clock ticks since boot
	Boot  string // the boot id
	Token string // hex SHA-256
}

// place returns where the book has a directory of a caller's host.
func (m Members) place(by op.Requester, at reserve.Place) reserve.Place {
	member := by.Account().Member
	if member == "" {
		return at
	}
	names := &reserve.Names{Path: at.Path}
	for _, name := range slices.Sorted(maps.Keys(m.Scopes)) {
		root, has := m.Scopes[name][member]
		if !has {
			continue
		}
		if rel, ok := under(root, at.Path, at.Fold); ok {
			return reserve.Place{In: name, Path: path.Join("/", rel), Fold: at.Fold, Names: names}
		}
		if rel, ok := under(at.Path, root, at.Fold); ok {
			names.Shared = append(names.Shared, rel)
		}
	}
	at.In, at.Names = member, names
	return at
}

// path returns the path of a place on the caller's host, and whether it has one there.
func (m Members) path(by op.Requester, p reserve.Place) (at string, here bool) {
	member := by.Account().Member
	root, shared := m.Scopes[p.In][member]
	switch {
	case shared:
		return path.Join(root, p.Path), true
	case p.In == member:
		return p.Path, true
	}
	return "", false
}

// shown is a place as its reader sees it: the path on the reader's host, else with the name of the member or scope.
func (m Members) shown(by op.Requester, p reserve.Place) string {
	if at, here := m.path(by, p); here {
		return at
	}
	return p.String()
}

// under returns a path relative to a directory, if it is that or below it. fold ignores case.
func under(dir, p string, fold bool) (rel string, ok bool) {
	names, above := strings.Split(strings.TrimSuffix(p, "/"), "/"), strings.Split(strings.TrimSuffix(dir, "/"), "/")
	if len(names) < len(above) {
		return "", false
	}
	for i, name := range above {
		if names[i] != name && !(fold && strings.EqualFold(names[i], name)) {
			return "", false
		}
	}
	return strings.Join(names[len(above):], "/"), true
}
