package store

import (
	"slices"
	"sync"
)

// hooks are the functions registered with OnGroup and OnCommit.
type hooks struct {
	mu       sync.Mutex
	onGroup  []func(*Tx) error
	onCommit []func()
}

func (h *hooks) group() []func(*Tx) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.onGroup
}

func (h *hooks) commit() []func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.onCommit
}

// OnGroup registers a function that runs once per group, after the calls' own
// and before COMMIT, in the order of registration. It sees what the group
// keeps. An error of it, or a panic, drops the whole group: all its callers
// get ErrUnavailable. It does not run for a group that keeps nothing.
func (s *Store) OnGroup(fn func(*Tx) error) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.onGroup = append(slices.Clip(s.hooks.onGroup), fn)
}

// OnCommit registers a function that runs after each successful COMMIT, before
// the group's callers are answered. It runs on the writer's goroutine: it must
// not block and not call Update.
func (s *Store) OnCommit(fn func()) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.onCommit = append(slices.Clip(s.hooks.onCommit), fn)
}
