package pvetest

import (
	"net/http"
	"strings"
)

// Request is one request, by its template.
type Request struct {
	Method string
	Path   string            // the template: "/nodes/{node}/qemu/{vmid}/config"
	Values map[string]string // parameters, also those in the path
}

// Fault is a way in which an answer goes wrong.
type Fault int

// The faults. Those with After in their name do the work first.
const (
	FailBefore Fault = iota + 1 // an error of the rule's status; no work
	FailAfter                   // the work, then an error of the rule's status
	DropBefore                  // closes the connection; no work
	DropAfter                   // the work, then closes the connection
	HangBefore                  // waits until Release, then the work and the answer
	HangAfter                   // the work, then waits until Release with the answer
	Garbage                     // the work, then an answer that is no JSON
	Empty                       // it is done, and {"data":null} answered
	Twice                       // the work, then a list with each row twice; all other answers once
	Ignore                      // {"data":null} is answered; nothing is done
	Lie                         // the task starts and ends with OK, without its work
)

// Rule is a fault that requests meet.
type Rule struct {
	Method string // "" is any
	Path   string // a template's end: "/config"; "" is any
	VMID   string // "" is any
	Fault  Fault
	Status int    // of FailBefore and FailAfter; 0 is 500
	Reason string // of the status line
	Skip   int    // how many fitting requests pass before the first fault
	Times  int    // how many requests meet the rule; 0 means all

	c       *Cluster
	met     int
	skipped int
	off     bool
	release chan struct{}
	came    chan struct{}
}

// Came is closed when a request has met the rule. With HangAfter and DropAfter, its work may
// not be done yet.
func (r *Rule) Came() <-chan struct{} { return r.came }

// Break adds a rule. A request meets the first rule that fits.
func (c *Cluster) Break(r Rule) *Rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.c, r.release, r.came = c, make(chan struct{}), make(chan struct{})
	c.rules = append(c.rules, &r)
	return &r
}

func (r *Rule) meets() {
	r.met++
	if r.met == 1 {
		close(r.came)
	}
}

// Met is the number of requests that met the rule.
func (r *Rule) Met() int {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.met
}

// Release removes the rule and lets its hanging requests go on.
func (r *Rule) Release() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.free()
}

func (r *Rule) free() {
	if !r.off {
		r.off = true
		close(r.release)
	}
}

// ReleaseAll removes every rule and ends every hold.
func (c *Cluster) ReleaseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rules {
		r.free()
	}
	for _, h := range c.holds {
		h.free()
	}
}

func (r *Rule) fits(req call) bool {
	return !r.off && (r.Times == 0 || r.met < r.Times) && (r.Method == "" || r.Method == req.Method) &&
		strings.HasSuffix(req.Path, r.Path) && (r.VMID == "" || r.VMID == req.v["vmid"])
}

// meet records a request and finds its fault.
func (c *Cluster) meet(req call) *Rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, Request{Method: req.Method, Path: req.Path, Values: req.v})
	for _, r := range c.rules {
		if r.Fault == Lie || !r.fits(req) {
			continue
		}
		if r.skipped < r.Skip {
			r.skipped++
			continue
		}
		r.meets()
		return r
	}
	return &Rule{release: make(chan struct{})}
}

// perform does the work of a request and answers it, by the rules.
func (c *Cluster) perform(w http.ResponseWriter, r *http.Request, req call) {
	rule := c.meet(req)
	failure := &refusal{status: rule.Status, reason: rule.Reason}
	if failure.status == 0 {
		failure.status = http.StatusInternalServerError
	}
	switch rule.Fault {
	case FailBefore:
		answer(w, nil, failure)
		return
	case DropBefore:
		drop(w)
		return
	case Ignore:
		answer(w, nil, nil)
		return
	case HangBefore:
		rule.wait(r)
	}
	data, refused := c.do(req)
	switch rule.Fault {
	case FailAfter:
		answer(w, nil, failure)
	case DropAfter:
		drop(w)
	case Garbage:
		write(w, http.StatusOK, "OK", []byte("<html>Bad Gateway</html>"))
	case Empty:
		answer(w, nil, nil)
	case HangAfter:
		rule.wait(r)
		answer(w, data, refused)
	case Twice:
		if rows, ok := data.([]any); ok {
			data = append(rows, rows...)
		}
		answer(w, data, refused)
	default:
		answer(w, data, refused)
	}
}

// wait returns when the test released the rule. If the caller leaves before, it ends the request without an answer: a
// handler that returns would answer 200, which a caller that is slow to leave could still read.
func (r *Rule) wait(req *http.Request) {
	select {
	case <-r.release:
	case <-req.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

func drop(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// lies reports whether a rule makes the task end with OK without its work.
func (c *Cluster) lies(t *task) bool {
	for _, r := range c.rules {
		if r.Fault == Lie && !r.off && (r.Times == 0 || r.met < r.Times) &&
			(r.Path == "" || r.Path == t.kind) && (r.VMID == "" || r.VMID == t.id) {
			r.meets()
			return true
		}
	}
	return false
}

// Held is a hold on tasks of a kind: they run until it is released.
type Held struct {
	c     *Cluster
	kind  string
	tasks []*task
	off   bool
	came  chan struct{}
	asked chan struct{}
}

// Hold keeps tasks of a kind ("qmdestroy", "vzdump", "" for all) running, with
// their locks, from now on until Release.
func (c *Cluster) Hold(kind string) *Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &Held{c: c, kind: kind, came: make(chan struct{}), asked: make(chan struct{})}
	c.holds = append(c.holds, h)
	return h
}

func (h *Held) takes(t *task) bool {
	if h.off || h.kind != "" && h.kind != t.kind {
		return false
	}
	h.tasks = append(h.tasks, t)
	if len(h.tasks) == 1 {
		close(h.came)
	}
	return true
}

// Came is closed when the hold has a task.
func (h *Held) Came() <-chan struct{} { return h.came }

// Asked is closed when somebody asked how the first task of the hold stands. The gate asks only after it recorded the
// task's id; after Came alone, it may not have the id yet.
func (h *Held) Asked() <-chan struct{} { return h.asked }

func (h *Held) isAsked(t *task) {
	if len(h.tasks) == 0 || h.tasks[0] != t {
		return
	}
	select {
	case <-h.asked:
	default:
		close(h.asked)
	}
}

// UPIDs are the ids of the held tasks.
func (h *Held) UPIDs() []string {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	var out []string
	for _, t := range h.tasks {
		out = append(out, t.upid)
	}
	return out
}

// Release does the work of the held tasks, ends them and removes the hold.
func (h *Held) Release() {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.free()
}

// Fail ends the held tasks with an error and without their work, and removes the hold.
func (h *Held) Fail(reason string) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	for _, t := range h.tasks {
		t.work = func() *refusal { return die("%s", reason) }
	}
	h.free()
}

func (h *Held) free() {
	if h.off {
		return
	}
	h.off = true
	for _, t := range h.tasks {
		h.c.finish(t)
	}
}
