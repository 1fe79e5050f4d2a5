package store

// Memory is what a package remembers of a group, for example the end of what it wrote, so that it need not read its own
// rows again for each call. A package has one as a variable.
//
// The store keeps a T as true as the rows: it begins empty with each group, goes back with each savepoint and each call
// whose writes are dropped, and is forgotten with the group, whether that is kept or not. It goes back by assignment. So
// a T has no maps, and no pointers to what changes; a slice in it grows only by append.
//
// A function changes it after the statement that it stands for has succeeded.
type Memory[T any] struct{ _ byte } // not empty, because two variables without size may have one address

// In returns what the package remembers of tx's group: the zero T at first, and after a return to a time before the
// first use. It returns nil in a View and after the function has returned. The pointer is valid until then.
func (m *Memory[T]) In(tx *Tx) *T {
	if tx.memory == nil {
		return nil
	}
	for i := range tx.memory.slots {
		if s := &tx.memory.slots[i]; s.of == m {
			return &s.has.(*remembered[T]).now
		}
	}
	has := &remembered[T]{}
	tx.memory.slots = append(tx.memory.slots, slot{m, has})
	return &has.now
}

// remembered is the T of one group.
type remembered[T any] struct{ now T }

func (r *remembered[T]) mark() any { return r.now }

func (r *remembered[T]) back(to any) {
	var first T
	r.now = first
	if to != nil {
		r.now = to.(T)
	}
}

// groupMemory is what all packages remember of one group.
type groupMemory struct{ slots []slot }

// slot is one package's part; of is its *Memory.
type slot struct {
	of  any
	has interface {
		mark() any   // returns a copy
		back(to any) // goes back to a copy, or to the beginning if it is nil
	}
}

// mark copies everything. into may be empty; it saves an allocation.
func (g *groupMemory) mark(into []any) []any {
	for _, s := range g.slots {
		into = append(into, s.has.mark())
	}
	return into
}

// back returns to a mark. What was remembered first after the mark returns to its beginning.
func (g *groupMemory) back(marks []any) {
	for i, s := range g.slots {
		if i < len(marks) {
			s.has.back(marks[i])
		} else {
			s.has.back(nil)
		}
	}
}
