package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/host/members"
	"gated/internal/host/service"
)

// agentsOf says what of the agents and their places is of this host.
func (d *daemon) agentsOf() service.Members {
	m := d.member
	if m.callers() == "" {
		return service.Members{}
	}
	out := service.Members{Self: m.Member, Names: slices.Sorted(maps.Keys(m.Members)), Scopes: m.Scopes}
	if m.standsBy() {
		out.Active = &activeMember{m, d.gate.ID()}
	}
	return out
}

// checkScopes refuses a shared scope whose path here has a symbolic link: no caller's path would ever be below it. A directory
// that is not there yet may be a file system that is not mounted.
func checkScopes(c config.Store) error {
	for name, on := range c.Scopes {
		p, has := on[c.Member]
		if !has {
			continue
		}
		if real, err := filepath.EvalSymlinks(p); err == nil && real != p {
			return refusal.New(refusal.Conflict, "there is a symbolic link in %s, which store.scopes.%s names for %s", p, name, c.Member).
				WithHint("write %s into gated.yaml of each member", real)
		}
	}
	return nil
}

const (
	// maxAnswer is the longest answer about one agent, in bytes.
	maxAnswer = 64 << 10
	// askTime is how long an answer about one agent may take. Another member may decide by then.
	askTime = 20 * time.Second
)

// activeMember asks the member that decides about agents of this host.
type activeMember struct {
	m    *member
	gate op.GateID
}

// Enrol stores a registration.
func (a *activeMember) Enrol(ctx context.Context, by op.Requester, name string, to service.Bound) (id int64, err error) {
	var out members.Enrolled
	err = a.ask(ctx, by, http.MethodPost, members.AgentsPath,
		members.Enrolment{Name: name, PID: to.PID, Start: to.Start, Boot: to.Boot, Token: to.Token}, &out)
	return out.ID, err
}

// Ended ends what is bound to a registration.
func (a *activeMember) Ended(ctx context.Context, uid uint32, who string) error {
	by := op.Requester{Source: op.SourceAPI, UID: uid}
	err := a.ask(ctx, by, http.MethodDelete, members.AgentsPath+"/"+who, nil, &struct{}{})
	if errors.Is(err, refusal.UnknownTarget) {
		return nil
	}
	return err
}

// GiveUp takes a name away.
func (a *activeMember) GiveUp(ctx context.Context, by op.Requester, name string) (out api.Agent, err error) {
	err = a.ask(ctx, by, http.MethodDelete, "/v1/agents/"+name, nil, &out)
	return out, err
}

// ask has the active member answer a call. An error is a refusal.
func (a *activeMember) ask(ctx context.Context, by op.Requester, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = api.Encode(in); err != nil {
			return err
		}
	}
	r := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"Content-Type": {api.ContentType}}}
	ctx, cancel := context.WithTimeout(ctx, 2*askTime) // with the body, and the group
	defer cancel()
	resp, err := a.m.forward(ctx, askTime, members.Call{Gate: a.gate, UID: by.UID, PID: by.PID, Agent: by.Agent}, r, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil, len(answer) > maxAnswer:
		return refusal.New(refusal.Unavailable, "the answer of the member that decides broke off").WithHint("ask again")
	case resp.StatusCode >= http.StatusBadRequest:
		var p api.Problem
		if err := api.DecodeAnswer(bytes.TrimSpace(answer), &p); err != nil {
			return err
		}
		return p.Refusal()
	}
	return api.DecodeAnswer(answer, out)
}
