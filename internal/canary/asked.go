package canary

import "container/heap"

// asked is one step under way, as it was when it was asked for.
type asked struct {
	id    string
	since int64
}

// queue has the steps under way, the oldest first. Those that are under way no
// more, or were asked for anew, leave it when it is their turn.
type queue []asked

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].since < q[j].since || q[i].since == q[j].since && q[i].id < q[j].id
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(asked)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// under adds a step that is under way. Without room the oldest goes.
func (s *State) under(id string, o step) {
	if s.Steps == nil {
		s.Steps = map[string]step{}
	}
	s.Steps[id] = o
	if s.queue == nil || len(s.queue) > 4*maxSteps {
		s.queue = s.queue[:0]
		for id, o := range s.Steps {
			s.queue = append(s.queue, asked{id, o.Since})
		}
		heap.Init(&s.queue)
	} else {
		heap.Push(&s.queue, asked{id, o.Since})
	}
	for len(s.Steps) > maxSteps {
		first := heap.Pop(&s.queue).(asked)
		if o, ok := s.Steps[first.id]; ok && o.Since == first.since {
			delete(s.Steps, first.id)
		}
	}
}
