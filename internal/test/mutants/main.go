// Mutants changes the code of the packages that decide in one place at a time, and runs the tests that reach the place. A
// change that no test finds is a survivor. docs/design/mutants.md says how to read one.
//
// All mutants of a run are compiled into one test program for each package, behind switches that the environment sets.
// So a mutant costs the start of a program and some tests, and no compilation.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// deciding are the packages whose tests the sample examines.
var deciding = []string{"./internal/gate", "./internal/authz", "./internal/nonce", "./internal/classify", "./internal/people/policy",
	"./internal/log/journal", "./internal/base/op", "./internal/log/audit", "./internal/log/checkpoint"}

// users are packages whose tests get what the package's own tests do not find: they run the others' code for what it is for.
const users = "./internal/classify,./internal/host/retention,./internal/gate"

type config struct {
	root       string
	packages   []string
	users      []string
	size       int    // of the sample
	only       string // ids that begin so; "" for all
	equivalent string // file with the list
	workers    int
	verbose    bool
	out        io.Writer
}

func main() {
	c := config{root: ".", packages: deciding, out: os.Stdout}
	flag.IntVar(&c.size, "n", 300, "how many mutants")
	flag.StringVar(&c.only, "only", "", "only mutants of the sample whose id begins so")
	flag.StringVar(&c.equivalent, "equivalents", "internal/test/mutants/equivalents.txt", "the list of reviewed equivalents")
	flag.IntVar(&c.workers, "workers", runtime.NumCPU(), "how many test programs at once")
	flag.BoolVar(&c.verbose, "v", false, "print each mutant, and which tests kill it")
	tests := flag.String("users", users, "packages, with commas between, whose tests try what the package's own tests do not find")
	flag.Parse()
	if *tests != "" {
		c.users = strings.Split(*tests, ",")
	}
	wrong, err := c.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// run makes the mutants, tries each, and writes the report. It returns how many lines of the report ask for work.
func (c config) run() (wrong int, err error) {
	began := time.Now()
	reviewed, err := readReviewed(c.equivalent)
	if err != nil {
		return 0, err
	}
	units, err := search(c.root, c.packages)
	if err != nil {
		return 0, err
	}
	chosen := slices.DeleteFunc(sample(units, c.size), func(s *site) bool { return !strings.HasPrefix(s.id, c.only) })
	all := sites(units)
	tested := slices.Clone(c.users)
	for _, s := range chosen {
		if !slices.Contains(tested, s.pkg) {
			tested = append(tested, s.pkg)
		}
	}
	dir, err := os.MkdirTemp("", "gated-mutants")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	list, err := overlay(dir, units, chosen)
	if err != nil {
		return 0, err
	}
	suites, err := compile(c.root, list, dir, tested)
	if err != nil {
		return 0, err
	}
	compiled := spent(began)
	if c.verbose {
		fmt.Fprintln(c.out, "compiled after", compiled)
	}
	if err := c.tryAll(suites, dir); err != nil {
		return 0, err
	}
	tried := spent(began)
	if c.verbose {
		fmt.Fprintln(c.out, "tried after", tried)
	}
	verdicts := c.judge(suites, chosen)
	wrong = report(c.out, units, verdicts, reviewed, c.only != "")
	fmt.Fprintf(c.out, "mutants: %d of %d sites; compiled after %s, tests without a mutant after %s, all after %s\n", len(verdicts), all,
		compiled, tried, spent(began))
	return wrong, nil
}

// spent says how long the run has lasted, and how long the processors worked for it.
func spent(began time.Time) string {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d s (%d s of processors)", int(time.Since(began).Seconds()), u.Utime.Sec+u.Stime.Sec)
}

func sites(units []*unit) (n int) {
	for _, u := range units {
		n += len(u.sites)
	}
	return n
}

// tryAll runs every test without a mutant.
func (c config) tryAll(suites []*suite, dir string) error {
	type task struct {
		s    *suite
		name string
	}
	var tasks []task
	for _, s := range suites {
		names, err := s.open()
		if err != nil {
			return err
		}
		for _, name := range append([]string{""}, names...) {
			tasks = append(tasks, task{s, name})
		}
	}
	var mu sync.Mutex
	var failed error
	c.each(len(tasks), func(i int) {
		t, err := tasks[i].s.try(tasks[i].name, dir)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failed = err
		case t.name == "":
			tasks[i].s.atStart = t.reached
		default:
			tasks[i].s.tests = append(tasks[i].s.tests, t)
		}
	})
	return failed
}

// verdict is what became of a mutant.
type verdict struct {
	*site
	killed string // by which tests; "" for a survivor
}

// judge tries each mutant: the tests of its package first, then those of its users.
func (c config) judge(suites []*suite, chosen []*site) []verdict {
	out := make([]verdict, len(chosen))
	for i, s := range chosen {
		out[i].site = s
	}
	c.each(len(out), func(i int) {
		v := &out[i]
		began := time.Now()
		for _, own := range []bool{true, false} {
			for _, s := range suites {
				if v.killed == "" && (s.pkg == v.pkg) == own && (own || slices.Contains(c.users, s.pkg)) {
					v.killed = s.kills(v.number, own)
				}
			}
		}
		if c.verbose {
			fmt.Fprintf(c.out, "%s: %.1f s: %s\n", v.id, time.Since(began).Seconds(), v.killed)
		}
	})
	return out
}

// each calls fn for 0 to n-1, from as many goroutines as there are workers.
func (c config) each(n int, fn func(int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(c.workers, 1) {
		wg.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
