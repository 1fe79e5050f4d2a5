package local

import (
	"cmp"
	"slices"
	"sync"
)

// nameLocks lets only one piece of work at a time act on a name. Reconcile already runs a
// target's steps one after the other; these locks are a second protection.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock
}

type nameLock struct {
	sync.Mutex
	users int
}

// lock waits for the names, always in the same order. It returns the function that unlocks
// them.
func (n *nameLocks) lock(names ...string) (unlock func()) {
	slices.Sort(names)
	names = slices.Compact(names)
	unlocks := make([]func(), 0, len(names))
	for _, name := range names {
		unlocks = append(unlocks, n.lockOne(name))
	}
	return func() {
		for _, unlock := range slices.Backward(unlocks) {
			unlock()
		}
	}
}

func (n *nameLocks) lockOne(name string) (unlock func()) {
	n.mu.Lock()
	if n.held == nil {
		n.held = map[string]*nameLock{}
	}
	l := n.held[name]
	if l == nil {
		l = &nameLock{}
		n.held[name] = l
	}
	l.users++
	n.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(n.held, name)
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
