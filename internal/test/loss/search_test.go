package loss

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/host/daemon"
	"gated/internal/test/forker"
)

func TestMain(m *testing.M) {
	daemon.MaybeExecGuest()
	forker.MaybeFork()
	os.Exit(forker.Run(m.Run))
}

var (
	searchFor = flag.Duration("search", 2*time.Second, "how long to search each back end")
	backend   = flag.String("backend", "", "the back ends to search, with commas between them; all of them if empty")
	seed      = flag.Uint64("seed", 1, "where the search begins; 0 is a random place")
	ignored   = flag.String("ignore", "", "a regular expression of losses that do not count, to look for others")
	skip      = flag.Int("skip", 0, "how many sequences of the seed to leave out")
	processor = flag.Duration("processor", 0, "how much time of a processor the search may take; 0 is any")
	smaller   = flag.Duration("shrink", time.Minute, "how long to make a sequence shorter that loses something")
	onLedger  = flag.Bool("ledger", false, "keep each machine's decisions in a ledger in memory, and compare what it replays")
	tell      = flag.Bool("tell", false, "say what happens in each sequence")
	length    = flag.Int("actions", 40, "how many actions a sequence has at most")
)

// beds are the back ends that the oracle searches.
var beds = []struct {
	name string
	make func(testing.TB) bed
}{
	{"memory", func(testing.TB) bed { return newMemoryBed() }},
	{"local", newLocalBed},
	{"command", newCommandBed},
	{"libvirt", newLibvirtBed},
	{"proxmox", newProxmoxBed("qemu")},
	{"proxmox-lxc", newProxmoxBed("lxc")},
}

// try plays one sequence.
func try(t testing.TB, b bed, seq []action) (*play, error) {
	return playOut(t.Context(), newMachine(t, b), seq)
}

// found is a sequence that loses something, made short.
type found struct {
	seq  []action
	play *play
	err  error
}

// String is what people read of it.
func (f found) String() string {
	return fmt.Sprintf("%v\n%s\nas bytes: %q", f.err, strings.Join(f.play.o.told, "\n"), encode(f.seq))
}

// shrink takes out of a sequence, and makes simpler, whatever it loses something
// without.
func shrink(t testing.TB, make func(testing.TB) bed, f found, limit time.Duration) found {
	var question string
	if l := (*loss)(nil); errors.As(f.err, &l) {
		question = l.question
	}
	until := time.Now().Add(limit)
	still := func(seq []action) bool {
		if time.Now().After(until) {
			return false
		}
		p, err := try(t, make(t), seq)
		l := (*loss)(nil)
		if !errors.As(err, &l) || l.question != question {
			return false
		}
		f = found{seq, p, err}
		return true
	}
	for better := true; better; {
		better = false
		for size := len(f.seq) / 2; size > 0; size /= 2 {
			for at := 0; at+size <= len(f.seq); {
				if still(slices.Delete(slices.Clone(f.seq), at, at+size)) {
					better = true
				} else {
					at += size
				}
			}
		}
		for i := range f.seq {
			for j := range simpler(f.seq[i]) {
				seq := slices.Clone(f.seq)
				if s := simpler(f.seq[i]); j < len(s) {
					seq[i] = s[j]
					better = still(seq) || better
				}
			}
		}
	}
	return f
}

// simpler are actions that say less than one.
func simpler(a action) (out []action) {
	for i, v := range a.args {
		if v != 0 {
			b := a
			b.args[i] = 0
			out = append(out, b)
		}
	}
	if a.kind == submits {
		for bit := range 8 {
			if b := a; a.args[0]&(1<<bit) != 0 {
				b.args[0] &^= 1 << bit
				out = append(out, b)
			}
		}
	}
	if a.target != 0 {
		b := a
		b.target = 0
		out = append(out, b)
	}
	if a.actor&^more != 0 {
		b := a
		b.actor &= more
		out = append(out, b)
	}
	return out
}

// tally is what a search came to.
type tally struct{ sequences, actions, steps, bytes int }

// has are the operations of a back end.
func has(t testing.TB, b bed) []string {
	m := newMachine(t, b)
	name := names[0]
	if list := b.targets(); list != nil {
		name = list[0]
	}
	o, err := m.life.injector.Driver.Observe(m.ctx, op.At(op.Target{Kind: b.kind(), Name: name}))
	must(t, err)
	_, err = m.finish()
	must(t, err)
	if o.Ops == nil {
		return []string{op.Run}
	}
	return o.Ops
}

// spent is the time of a processor that this process took.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// search plays random sequences until the time is over, or one loses something.
func search(t testing.TB, make func(testing.TB) bed, from uint64, d time.Duration) (tally, *found) {
	var n tally
	ops := has(t, make(t))
	for until := time.Now().Add(d); time.Now().Before(until) && (*processor == 0 || spent() < *processor); n.sequences++ {
		r := rand.New(rand.NewPCG(from, uint64(*skip+n.sequences)))
		seq := generator{r, ops}.generate(5 + r.IntN(*length))
		p, err := try(t, make(t), seq)
		n.actions, n.steps, n.bytes = n.actions+p.did, n.steps+p.o.steps, n.bytes+p.o.bytes
		if *tell {
			t.Logf("sequence %d: %s", *skip+n.sequences, found{seq, p, err})
		}
		if l := (*loss)(nil); errors.As(err, &l) && *ignored != "" && regexp.MustCompile(*ignored).MatchString(l.Error()) {
			continue
		}
		if err != nil {
			t.Logf("seed %d, sequence %d: %v", from, *skip+n.sequences, err)
			f := found{seq, p, err}
			if errors.As(err, new(*loss)) {
				f = shrink(t, make, f, *smaller)
			}
			return n, &f
		}
	}
	return n, nil
}

// TestSearch looks for a sequence that loses something, for as long as it is told.
func TestSearch(t *testing.T) {
	from := *seed
	if from == 0 {
		from = rand.Uint64()
	}
	searched := 0
	for _, b := range beds {
		if *backend != "" && !slices.Contains(strings.Split(*backend, ","), b.name) {
			continue
		}
		searched++
		t.Run(b.name, func(t *testing.T) {
			n, f := search(t, b.make, from, *searchFor)
			t.Logf("loss: %s | sequences %d | actions %d | steps %d | bytes %d | lost %d", b.name, n.sequences, n.actions, n.steps, n.bytes, map[bool]int{true: 1}[f != nil])
			if f != nil {
				t.Fatalf("%s", f)
			}
			if n.sequences > 20 && n.bytes == 0 {
				t.Fatalf("none of %d sequences wrote anything, so nothing could be lost", n.sequences)
			}
		})
	}
	if searched == 0 {
		t.Fatalf("there is no back end %q", *backend)
	}
}
