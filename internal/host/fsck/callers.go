package fsck

import (
	"maps"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/log/audit"
)

// want follows the requesters of each job. It ignores entries by the gate itself,
// because these are about the wishes of others.
func (h *history) want(job op.JobID, e audit.Entry) {
	if e.By == "gate" || e.By == "" {
		return
	}
	switch e.Kind {
	case audit.Planned, audit.Requested, audit.Joined:
		h.setWanted(job, with(h.wanted[job], e.By))
	case audit.Withdrawn:
		h.withdrawn[job] = true
		h.setWanted(job, without(h.wanted[job], e.By))
	case audit.Cancelled, audit.Superseded:
		h.left[job] = e.By
	}
}

// setWanted stores equal texts only once.
func (h *history) setWanted(job op.JobID, names string) {
	if names == "" {
		delete(h.wanted, job)
		return
	}
	one, ok := h.names[names]
	if !ok {
		one = strings.Clone(names)
		h.names[one] = one
	}
	h.wanted[job] = one
}

func with(names, who string) string {
	if names == "" {
		return who
	}
	all := strings.Split(names, "\n")
	if slices.Contains(all, who) {
		return names
	}
	all = append(all, who)
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func without(names, who string) string {
	all := strings.Split(names, "\n")
	return strings.Join(slices.DeleteFunc(all, func(n string) bool { return n == who }), "\n")
}

// requesters checks that a job has the same requesters in the journal as in the log.
func (c *check) requesters() error {
	var job op.JobID
	var who string
	var r op.Requester
	err := c.rows("requesters", `SELECT job, who, source, uid, agent, setname FROM requesters`,
		[]any{&job, &who, &r.Source, &r.UID, &r.Agent, &r.Set}, func() {
			names := c.log.wanted[job]
			switch {
			case r.Source != op.SourceAPI && r.Source != op.SourceDesired && r.Source != op.SourceOffline && r.Source != op.SourceHub || r.String() != who:
				c.found(requesterChanged, job.String(), "it has a requester %q whose row is of another", op.Shown(who))
			case !slices.Contains(strings.Split(names, "\n"), who):
				c.found(requesterUnknown, job.String(), "the audit log does not contain that %s asked for it", op.Shown(who))
			}
			c.log.setWanted(job, without(names, who))
		})
	for _, job := range slices.Sorted(maps.Keys(c.log.wanted)) {
		for _, who := range strings.Split(c.log.wanted[job], "\n") {
			// Earlier versions removed the last requester when it withdrew.
			if who != c.log.left[job] {
				c.found(requesterLost, job.String(), "%s asked for it by the audit log, and the journal does not say so", op.Shown(who))
			}
		}
	}
	return err
}

// answers checks what a repeated submission would get: the job that it made, or the
// refusal that it got.
func (c *check) answers() error {
	var caller, code string
	var job op.JobID
	var there bool
	return c.rows("answers", `SELECT i.caller, i.job, i.code, EXISTS(SELECT 1 FROM jobs j WHERE j.id = i.job) FROM idempotency i`,
		[]any{&caller, &job, &code, &there}, func() {
			switch {
			case (job == 0) == (code == ""):
				c.found(answerUnclear, op.Shown(caller), "a key of it stands for a job and a refusal, or for neither")
			case job != 0 && !there:
				c.found(answerWithoutJob, op.Shown(caller), "a key of it stands for %s, which is not there", job)
			}
		})
}

// put follows the sets of desired state.
func (c *check) put(e audit.Entry) {
	switch e.Kind {
	case audit.DesiredPut:
		if e.Set.Name == "" || e.Set.SHA256 == "" {
			c.found(entryUnclear, entry(e), "it does not name a set and its digest")
			return
		}
		c.log.sets[e.Set.Name] = e.Set.SHA256
	case audit.DesiredGone:
		delete(c.log.sets, e.Set.Name)
	}
}

// sets checks that the desired sets of the socket are those that the log has.
func (c *check) sets() error {
	left := maps.Clone(c.log.sets)
	var name, etag string
	var body []byte
	err := c.rows("desired sets", `SELECT name, etag, body FROM desired_sets`,
		[]any{&name, &etag, &body}, func() {
			switch digest, known := left[name]; {
			case !known:
				c.found(setUnknown, "set "+op.Shown(name), "the audit log has no entry that puts it")
			case digest != etag || digest != op.SHA256(body):
				c.found(setChanged, "set "+op.Shown(name), "it is not the one that the audit log says was put")
			}
			delete(left, name)
		})
	for _, name := range slices.Sorted(maps.Keys(left)) {
		c.found(setLost, "set "+op.Shown(name), "it was put by the audit log, and there is no row of it")
	}
	return err
}
