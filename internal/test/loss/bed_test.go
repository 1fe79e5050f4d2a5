package loss

import (
	"context"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
)

// mark is one piece of data that somebody wrote: who wrote it, and its number.
type mark string

// item is a copy of a mark at a place that no name can fake.
type item struct {
	holder string // what a target is by other hands than the gate's: one life of it
	part   string // "data", "snapshot s0", "disk vda", "backup b0"
	mark   mark
}

// where says how an item can be reached.
type where struct {
	name  string // of the target that has it, or had it
	trash bool
	until time.Time // of what is in the trash: it is kept at least as long, by the driver's clock
	mib   int       // of what a guest's programs hold: how much that is
}

// asked is what a driver asks of the gate.
type asked struct {
	// wanted reports whether an open step is to bring back a destroyed guest.
	wanted func(ctx context.Context, name string, inc op.Incarnation) (bool, error)
	// recorded returns every incarnation with a prefix that the journal has.
	recorded func(ctx context.Context, prefix string) ([]op.Incarnation, error)
}

// bed is one back end, a driver over it, and other hands: they write marks as
// programs in guests do, and find them again without the driver's help.
type bed interface {
	// at says where the gate keeps its state, and how a driver asks it something.
	at(dir string, of asked)

	// open returns a driver over the back end, as a start of the daemon makes one;
	// end lets go of it, as the end of a process does. Between the two the back end
	// goes on.
	open(now func() time.Time) (d driver.Driver, end func() error, err error)

	// sweep does what the daemon does with the trash from time to time.
	sweep() error

	// write puts a mark into a target's data, and reports whether a program in it
	// could have; erase takes one out of there, and rename moves it to another file.
	write(name string, m mark) bool
	erase(name string, m mark) bool
	rename(name string, m mark) bool

	// holdings are all the items that there are.
	holdings() (map[item]where, error)

	// holder says which life a name has now, "" for a name that is free.
	holder(name string) string

	// settle waits until programs that were started did what they do at once.
	settle() error

	making() op.Params                           // what guest.create needs beside what a sequence says
	free(target string, args [5]uint8) op.Params // parameters of an operation whose target names them
	commands() []string                          // what a guest can be told to run
	templates() []string                         // what a guest can be made from
	newDisk() string                             // the name of a disk that a guest can get
	targets() []string                           // of what is configured and not made; nil where guests are made
	kind() string                                // of target
	close()
}

// naming is a bed whose requests name what their step takes beside its target.
type naming interface {
	// named is the holder that an operator reads in a request, or "".
	named(r op.Request) string
}

// What a guest's program does, by the name of the catalogue's entry.
const (
	keeps  = "keep"  // leaves its data alone
	purges = "purge" // deletes everything in its data when it starts
	fills  = "fill"  // writes marks of its own when it starts
)

// programs are all that a guest's command can name.
var programs = []string{keeps, purges, fills}
