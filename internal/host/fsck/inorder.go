package fsck

import "runtime"

// batchSize is how many values one goroutine prepares. With so many, starting it
// costs almost nothing.
const batchSize = 64

// inOrder prepares values on every processor and passes them on in their first
// order, so that a report does not depend on timing.
type inOrder[T any] struct {
	prepare func(*T) // several run at once
	take    func(T)  // one after the other
	batch   []T
	under   []chan []T // the batches in work, oldest first
}

func (o *inOrder[T]) put(v T) {
	if o.batch = append(o.batch, v); len(o.batch) == batchSize {
		o.start()
	}
}

// start prepares the batch. If every processor has one, it first takes the oldest.
func (o *inOrder[T]) start() {
	if len(o.under) >= runtime.GOMAXPROCS(0) {
		o.takeOldest()
	}
	batch, ready := o.batch, make(chan []T, 1) // so that a batch also ends if it is never taken
	o.batch, o.under = nil, append(o.under, ready)
	go func() {
		for i := range batch {
			o.prepare(&batch[i])
		}
		ready <- batch
	}()
}

func (o *inOrder[T]) takeOldest() {
	for _, v := range <-o.under[0] {
		o.take(v)
	}
	o.under = o.under[1:]
}

// finish takes all values that are not taken yet.
func (o *inOrder[T]) finish() {
	o.start()
	for len(o.under) > 0 {
		o.takeOldest()
	}
}
