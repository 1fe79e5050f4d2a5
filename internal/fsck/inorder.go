package fsck

import "runtime"

// batchSize is how many values one goroutine prepares: enough that to start one
// costs nothing beside them.
const batchSize = 64

// inOrder prepares values on every processor and hands them on in the order in
// which they came, so that a report does not depend on who was faster.
type inOrder[T any] struct {
	prepare func(*T) // several at once
	take    func(T)  // one after the other
	batch   []T
	under   []chan []T // batches being prepared, oldest first
}

func (o *inOrder[T]) put(v T) {
	if o.batch = append(o.batch, v); len(o.batch) == batchSize {
		o.start()
	}
}

// start prepares what was put in, and takes the oldest batch first where every
// processor has one.
func (o *inOrder[T]) start() {
	if len(o.under) >= runtime.GOMAXPROCS(0) {
		o.takeOldest()
	}
	batch, ready := o.batch, make(chan []T, 1) // so that a batch nobody takes ends too
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

// finish takes all that was put in and is not taken yet.
func (o *inOrder[T]) finish() {
	o.start()
	for len(o.under) > 0 {
		o.takeOldest()
	}
}
