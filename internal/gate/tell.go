package gate

import (
	"slices"
	"sync"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// mentioned has the jobs that a group of transactions has written entries about. Each change of a job has an entry.
var mentioned store.Memory[[]string]

// news tells listeners which jobs a group was about, once the group is on disk.
type news struct {
	mu        sync.Mutex
	listeners []func(jobs []string)
	jobs      []string // of groups that end
}

// OnJobs registers a function that the gate calls after each commit with the ids of jobs about which it wrote entries.
// A job may be named although it is as before. The function runs on the writer's goroutine: it must not block.
func (g *Gate) OnJobs(fn func(jobs []string)) {
	g.news.mu.Lock()
	defer g.news.mu.Unlock()
	g.news.listeners = append(g.news.listeners, fn)
}

// Heard tells the functions of OnJobs of jobs about which another member of the gate wrote entries.
func (g *Gate) Heard(jobs []string) { g.news.pass(jobs) }

func (n *news) pass(jobs []string) {
	n.mu.Lock()
	listeners := slices.Clone(n.listeners)
	n.mu.Unlock()
	for _, fn := range listeners {
		if len(jobs) > 0 {
			fn(jobs)
		}
	}
}

// mention notes the jobs of entries in the memory of tx's group.
func mention(tx *store.Tx, entries []audit.Entry) {
	jobs := mentioned.In(tx)
	for _, e := range entries {
		if e.Job != "" && (len(*jobs) == 0 || (*jobs)[len(*jobs)-1] != e.Job) {
			*jobs = append(*jobs, e.Job)
		}
	}
}

// collect takes over what a group is about. It keeps what earlier groups left: a COMMIT that answers with an error may
// have reached the disk.
func (n *news) collect(tx *store.Tx) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs = append(n.jobs, *mentioned.In(tx)...)
	slices.Sort(n.jobs)
	n.jobs = slices.Compact(n.jobs)
	return nil
}

// tell passes on what was collected.
func (n *news) tell() {
	n.mu.Lock()
	jobs := n.jobs
	n.jobs = nil
	n.mu.Unlock()
	n.pass(jobs)
}
