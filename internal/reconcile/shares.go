package reconcile

import (
	"fmt"
	"sync"

	"gated/internal/base/op"
)

// released is how many targets of a requester are tried again after one of its steps ended. It is more than one,
// because a target may have nothing to run.
const released = 2

// shares bounds the unsigned steps that run for one requester at a time, so that slow steps of one uid do not take
// every worker. Targets without a place wait in aside, and hold no worker.
type shares struct {
	most int

	mu      sync.Mutex
	running map[string]int
	aside   map[string][]op.Target
	waiting map[op.Target]bool // in aside
}

func newShares(most int) *shares {
	return &shares{most: most, running: map[string]int{}, aside: map[string][]op.Target{}, waiting: map[op.Target]bool{}}
}

// share names the share for a requester: all agents of a uid have one, and all sets of desired state have one.
func share(by op.Requester) string {
	if by.Source == op.SourceAPI {
		return fmt.Sprintf("uid:%d", by.UID)
	}
	return string(by.Source)
}

// enter takes a place for a step on t, or keeps t for leave to return.
func (s *shares) enter(by string, t op.Target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[by] < s.most {
		s.running[by]++
		return true
	}
	if !s.waiting[t] {
		s.waiting[t] = true
		s.aside[by] = append(s.aside[by], t)
	}
	return false
}

// leave gives a place back, and returns the targets that wait for one.
func (s *shares) leave(by string) []op.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[by]--; s.running[by] == 0 {
		delete(s.running, by)
	}
	n := min(released, len(s.aside[by]))
	out := s.aside[by][:n:n]
	if s.aside[by] = s.aside[by][n:]; len(s.aside[by]) == 0 {
		delete(s.aside, by)
	}
	for _, t := range out {
		delete(s.waiting, t)
	}
	return out
}
