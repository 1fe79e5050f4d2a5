package mcp

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The addresses of resources.
const (
	jobsURI     = "gated://jobs"
	requestsURI = "gated://requests"
)

// addResources adds jobs and requests as resources.
func (s *toolset) addResources(to *sdk.Server) {
	to.AddResource(&sdk.Resource{URI: jobsURI, Name: "jobs", MIMEType: api.ContentType,
		Description: "The first jobs that wait for a signature"}, s.resource(s.readJobs))
	to.AddResource(&sdk.Resource{URI: requestsURI, Name: "requests", MIMEType: api.ContentType,
		Description: "The first requests that wait for operators, or ended recently"}, s.resource(s.readRequests))
	to.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: jobsURI + "/{id}", Name: "job", MIMEType: api.ContentType,
		Description: "One job, with its output"}, s.resource(s.readJob))
	to.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: requestsURI + "/{id}", Name: "request",
		MIMEType: api.ContentType, Description: "One request: who can sign it, and how"}, s.resource(s.readRequest))
}

// resource returns a handler for what read returns. An unknown id is a resource that is not found.
func (s *toolset) resource(read func(ctx context.Context, id string) (any, error)) sdk.ResourceHandler {
	return func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		ctx, done, err := s.begin(ctx, false)
		if err != nil {
			return nil, err
		}
		defer done()
		uri := req.Params.URI
		out, err := read(ctx, uri[strings.LastIndexByte(uri, '/')+1:])
		if errors.Is(err, refusal.UnknownTarget) || errors.Is(err, refusal.Malformed) {
			return nil, sdk.ResourceNotFoundError(uri)
		}
		if err != nil {
			p := problemOf(err)
			return nil, errors.New(p.Code + ": " + p.Detail)
		}
		b, err := api.Encode(out)
		if err != nil {
			return nil, err
		}
		content := &sdk.ResourceContents{URI: uri, MIMEType: api.ContentType, Text: string(b)}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{content}}, nil
	}
}

func (s *toolset) readJobs(ctx context.Context, _ string) (any, error) {
	return s.jobs(ctx, call{}, jobsIn{State: string(op.StatePending)})
}

func (s *toolset) readJob(ctx context.Context, id string) (any, error) {
	job, err := s.Client.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.told(ctx, job), nil
}

// requestView is a request of an operator's list.
type requestView struct {
	Op          string         `json:"op"`
	Target      string         `json:"target"`
	State       string         `json:"state"`
	RequestedBy []string       `json:"requested_by"`
	Rule        string         `json:"rule"`
	Signature   *signatureView `json:"signature"`
}

type requestsOut struct {
	Requests []requestView `json:"requests"`
	Words    string        `json:"words,omitempty"`
}

func (s *toolset) readRequests(ctx context.Context, _ string) (any, error) {
	done, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := s.Client.RequestPage(ctx, "", defaultPage)
	return requestsOf(list.Requests...), err
}

func (s *toolset) readRequest(ctx context.Context, id string) (any, error) {
	r, err := s.request(ctx, id)
	return requestsOf(r), err
}

func requestsOf(list ...api.Request) requestsOut {
	var words theirs
	out := requestsOut{Requests: []requestView{}}
	for _, r := range list {
		id := op.Shown(r.ID)
		out.Requests = append(out.Requests, requestView{Op: op.Shown(r.Op), Target: op.Shown(r.Target), State: string(r.State),
			RequestedBy: shownAll(r.RequestedBy), Rule: op.Shown(r.Rule), Signature: signatureOf(r)})
		words.add(id+" reason", r.Reason)
		words.add(id+" why", r.Why)
		if len(r.Params) > 0 {
			words.add(id+" params", string(r.Params.Canonical()))
		}
		factsOf(id, r.Facts, &words)
		if r.Error != nil {
			words.add(id+" error", r.Error.Detail)
		}
	}
	out.Words = words.framed()
	return out
}
