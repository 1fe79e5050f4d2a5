package pvetest

import (
	"fmt"
	"strconv"
	"strings"
)

// task is a worker that the server forked.
type task struct {
	upid   string
	node   string
	kind   string
	id     string
	pid    int
	start  int64
	end    int64
	status string // "" while running, then "OK" or the error
	log    []string
	work   func() *refusal
	clean  func()
}

// fork starts a task of a kind. The work is done at once, unless a test holds tasks of the
// kind. clean runs when the task ends in any way.
func (c *Cluster) fork(nodeName, kind, id string, work func() *refusal, clean func()) string {
	c.pid++
	t := &task{node: nodeName, kind: kind, id: id, pid: c.pid, start: c.tick(), work: work, clean: clean}
	t.upid = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", nodeName, t.pid, t.pid*7, t.start, kind, id, TokenID)
	c.tasks[t.upid] = t
	c.taskOrder = append(c.taskOrder, t)
	for _, h := range c.holds {
		if h.takes(t) {
			return t.upid
		}
	}
	c.finish(t)
	return t.upid
}

// forkOn starts a task for a guest. A task finds its guest by the vmid after it has the lock,
// so the guest may be another one by then.
func (c *Cluster) forkOn(g *guest, kind string, work func(*guest) *refusal) string {
	return c.fork(g.node, kind, strconv.Itoa(g.vmid), func() *refusal {
		now := c.guests[g.vmid]
		if now == nil || now.kind != g.kind {
			return noConfig(g.kind, g.node, strconv.Itoa(g.vmid))
		}
		return work(now)
	}, nil)
}

// finish does the work of a task and ends it.
func (c *Cluster) finish(t *task) {
	if t.status != "" {
		return
	}
	t.status = "OK"
	lie := c.lies(t)
	if !lie && t.work != nil {
		if refused := t.work(); refused != nil {
			t.status = refused.reason
			if refused.log != "" {
				t.log = append(t.log, refused.log)
			}
			t.log = append(t.log, "TASK ERROR: "+refused.reason)
		}
	}
	if t.status == "OK" {
		t.log = append(t.log, "TASK OK")
	}
	if t.clean != nil {
		t.clean()
	}
	t.end = c.tick()
}

func (c *Cluster) taskOf(r call) (*task, *refusal) {
	upid := r.v["upid"]
	if len(strings.Split(upid, ":")) != 9 || !strings.HasPrefix(upid, "UPID:") {
		return nil, invalid("upid", "unable to parse worker upid")
	}
	t := c.tasks[upid]
	if t == nil || t.node != r.v["node"] {
		return nil, die("no such task")
	}
	return t, nil
}

func taskStatus(c *Cluster, r call) (any, *refusal) {
	t, refused := c.taskOf(r)
	if refused != nil {
		return nil, refused
	}
	for _, h := range c.holds {
		h.isAsked(t)
	}
	out := map[string]any{"upid": t.upid, "node": t.node, "type": t.kind, "id": t.id, "pid": t.pid,
		"pstart": t.pid * 7, "starttime": t.start, "user": TokenID[:strings.Index(TokenID, "!")],
		"tokenid": TokenID[strings.Index(TokenID, "!")+1:]}
	if t.status == "" {
		out["status"] = "running"
		return out, nil
	}
	out["status"], out["exitstatus"] = "stopped", t.status
	return out, nil
}

func taskLog(c *Cluster, r call) (any, *refusal) {
	t, refused := c.taskOf(r)
	if refused != nil {
		return nil, refused
	}
	lines := []any{}
	for i, l := range t.log {
		lines = append(lines, map[string]any{"n": i + 1, "t": l})
	}
	return lines, nil
}

func taskStop(c *Cluster, r call) (any, *refusal) {
	t, refused := c.taskOf(r)
	if refused != nil || t.status != "" {
		return nil, refused
	}
	t.work = func() *refusal { return die("interrupted by signal") }
	c.finish(t)
	return nil, nil
}

func taskList(c *Cluster, r call) (any, *refusal) {
	rows := []any{}
	for i := len(c.taskOrder) - 1; i >= 0; i-- {
		t := c.taskOrder[i]
		if t.node != r.v["node"] || r.has("vmid") && t.id != r.v["vmid"] || r.has("typefilter") && t.kind != r.v["typefilter"] {
			continue
		}
		row := map[string]any{"upid": t.upid, "node": t.node, "type": t.kind, "id": t.id, "pid": t.pid,
			"pstart": t.pid * 7, "starttime": t.start, "user": TokenID}
		if t.status != "" {
			row["endtime"], row["status"] = t.end, t.status
		}
		rows = append(rows, row)
	}
	return rows, nil
}
