package mcp

import (
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
)

// jobView is a job as an agent sees it.
type jobView struct {
	Job         string     `json:"job" jsonschema:"the job's id, j12"`
	State       string     `json:"state" jsonschema:"of the first unfinished step; pending_signature: waits for an operator"`
	RequestedBy []string   `json:"requested_by"`
	CreatedAt   time.Time  `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
	Steps       []stepView `json:"steps"`
}

// stepView is one step. What others wrote of it is in the frame.
type stepView struct {
	Step      string         `json:"step" jsonschema:"the step's id, j12.1, which is also its request's"`
	Op        string         `json:"op"`
	Target    string         `json:"target"`
	State     string         `json:"state"`
	Class     string         `json:"class" jsonschema:"benign: runs at once; destructive: an operator signs it first"`
	Rule      string         `json:"rule,omitempty"`
	Code      string         `json:"code,omitempty" jsonschema:"why it waits or failed"`
	Hint      string         `json:"hint,omitempty" jsonschema:"what to do"`
	RetryAt   *time.Time     `json:"retry_at,omitempty" jsonschema:"when a step that cannot run now is tried again"`
	Signature *signatureView `json:"signature,omitempty"`
}

// signatureView says what a step still needs from operators.
type signatureView struct {
	Request          string     `json:"request"`
	Line             string     `json:"line" jsonschema:"what an operator types"`
	CanSign          []string   `json:"can_sign" jsonschema:"people who could still sign"`
	Roles            []string   `json:"roles" jsonschema:"in any of which they sign"`
	Missing          int        `json:"missing" jsonschema:"how many people still have to sign"`
	PayloadExpiresAt time.Time  `json:"payload_expires_at" jsonschema:"then the gate makes a new payload, and the request goes on"`
	RunsAt           *time.Time `json:"runs_at,omitempty" jsonschema:"the end of the cool-off after the last signature"`
}

// viewOf returns a job, and adds to the frame what others wrote.
func viewOf(j api.Job, words *theirs) jobView {
	v := jobView{Job: op.Shown(j.ID), State: string(j.State), RequestedBy: shownAll(j.RequestedBy), CreatedAt: j.CreatedAt,
		FinishedAt: j.FinishedAt, Steps: make([]stepView, 0, len(j.Steps))}
	words.add(v.Job+" reason", j.Reason)
	for _, s := range j.Steps {
		step := stepView{Step: op.Shown(s.ID), Op: op.Shown(s.Op), Target: op.Shown(s.Target), State: string(s.State),
			Class: string(s.Class), Rule: op.Shown(s.Rule), RetryAt: s.RetryAt}
		if len(s.Params) > 0 {
			words.add(step.Step+" params", string(s.Params.Canonical()))
		}
		words.add(step.Step+" why", s.Why)
		if s.Error != nil {
			step.Code, step.Hint = string(s.Error.Code), shown(s.Error.Hint)
			words.add(step.Step+" error", s.Error.Detail)
		} else {
			words.add(step.Step+" detail", s.Detail)
		}
		words.addLong(step.Step+" output", s.Output)
		v.Steps = append(v.Steps, step)
	}
	return v
}

// signatureOf says what a request still needs.
func signatureOf(r api.Request) *signatureView {
	v := signatureView{Request: op.Shown(r.ID), Line: "opsign approve " + op.Shown(r.ID), CanSign: []string{},
		Roles: []string{}, Missing: r.Missing, PayloadExpiresAt: r.ExpiresAt, RunsAt: r.RunsAt}
	for _, role := range r.Roles {
		v.Roles = append(v.Roles, op.Shown(string(role)))
	}
	for _, d := range r.Demands {
		for _, name := range d.Could {
			if name = op.ShownName(name); !slices.Contains(v.CanSign, name) {
				v.CanSign = append(v.CanSign, name)
			}
		}
	}
	return &v
}

// guestView is a guest.
type guestView struct {
	Name      string `json:"name"`
	Target    string `json:"target" jsonschema:"for submit and preview"`
	State     string `json:"state"`
	Backend   string `json:"backend,omitempty"`
	Protected bool   `json:"protected"`
	Destroy   string `json:"destroy,omitempty" jsonschema:"whether a destroy of it would be benign or destructive"`
	Rule      string `json:"rule,omitempty" jsonschema:"by which rule"`
	Scratch   bool   `json:"scratch,omitempty" jsonschema:"the gate made it as scratch"`
	Code      string `json:"code,omitempty" jsonschema:"why nothing is known of it"`
}

// guestOf returns a guest. Its labels, facts and errors go into the frame.
func guestOf(g api.Guest, words *theirs) guestView {
	name := op.Shown(g.Name)
	v := guestView{Name: name, Target: op.KindGuest + "/" + name, State: op.Shown(g.State), Backend: op.Shown(g.Backend),
		Protected: g.Protected}
	if g.Destroy != nil {
		v.Destroy, v.Rule = string(g.Destroy.Class), op.Shown(g.Destroy.Rule)
		words.add(name+" destroy", g.Destroy.Why)
	}
	if g.Provenance != nil {
		v.Scratch = g.Provenance.Scratch
	}
	if len(g.Spec) > 0 {
		words.add(name+" spec", string(g.Spec.Canonical()))
	}
	if len(g.Labels) > 0 {
		labels := op.Params{}
		for k, value := range g.Labels {
			labels[k] = value
		}
		words.add(name+" labels", string(labels.Canonical()))
	}
	factsOf(name, g.Facts, words)
	for _, d := range g.Disks {
		words.add(name+" disk", d.Name)
	}
	words.add(name+" snapshots", strings.Join(g.Snapshots, ", "))
	words.add(name+" backups", strings.Join(g.Backups, ", "))
	if g.Error != nil {
		v.Code = string(g.Error.Code)
		words.add(name+" error", g.Error.Detail)
	}
	return v
}

// factsOf adds what the gate saw of a target to the frame: a guest's own files may say it.
func factsOf(of string, facts []op.Fact, words *theirs) {
	for _, f := range facts {
		words.add(of+" fact", f.Name+": "+f.Text)
	}
}

// reservationView is a reservation.
type reservationView struct {
	ID        string    `json:"id" jsonschema:"for release, r12"`
	Scope     string    `json:"scope"`
	Patterns  []string  `json:"patterns"`
	Mode      string    `json:"mode"`
	Holder    string    `json:"holder" jsonschema:"your agent's name, or uid:N for every process of the uid"`
	ExpiresAt time.Time `json:"expires_at"`
	Renewed   bool      `json:"renewed,omitempty" jsonschema:"you had it already"`
}

func reservationOf(r api.Reservation) reservationView {
	return reservationView{ID: op.Shown(r.ID), Scope: op.Shown(r.Scope), Patterns: shownAll(r.Patterns), Mode: op.Shown(r.Mode),
		Holder: op.Shown(r.Agent), ExpiresAt: r.ExpiresAt, Renewed: r.Renewed}
}

// conflict is another agent's reservation in the way.
type conflict struct {
	ID        string    `json:"id"`
	Mode      string    `json:"mode"`
	Alive     bool      `json:"alive" jsonschema:"whether its holder still runs"`
	Since     time.Time `json:"since"`
	ExpiresAt time.Time `json:"expires_at"`
}

// conflictsOf returns reservations in the way. Their holders' words go into the frame.
func conflictsOf(list []api.Conflict, words *theirs) []conflict {
	out := make([]conflict, 0, len(list))
	for _, c := range list {
		r := c.Reservation
		id := op.Shown(r.ID)
		out = append(out, conflict{ID: id, Mode: op.Shown(r.Mode), Alive: r.HolderAlive, Since: r.CreatedAt, ExpiresAt: r.ExpiresAt})
		words.add(id+" your pattern", c.Pattern)
		words.add(id+" holder", r.Agent)
		words.add(id+" pattern", c.Overlaps)
		words.add(id+" reason", r.Reason)
	}
	return out
}

func shownAll(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, op.Shown(s))
	}
	return out
}
