package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	pve "github.com/luthermonson/go-proxmox"
)

// values are the parameters of one request. They are only texts, because the library makes a
// query from JSON, which would turn a number into 1e+08.
type values map[string]string

// client sends requests. It sends each once, with a deadline.
type client struct {
	api     *pve.Client
	token   string // the token's id, without the secret
	timeout time.Duration
}

// newClient reads the token and the certificates to trust. It does not connect.
func newClient(cfg Config) (*client, error) {
	id, secret, err := readToken(cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	through, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	own := &http.Client{Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("an answer of Proxmox VE is a redirect")
	}}
	api := pve.NewClient(strings.TrimSuffix(cfg.URL, "/")+"/api2/json", pve.WithHTTPClient(own),
		pve.WithAPIToken(id, secret), pve.WithUserAgent("gated"), pve.WithLogger(silent{}))
	return &client{api: api, token: id, timeout: cfg.Timeout}, nil
}

// silent discards the library's log, because the library prints data to standard error.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Errorf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}

// send does one request and returns the answer's data. The data is empty for null.
func (c *client) send(ctx context.Context, method, path string, v values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var data raw
	var err error
	// A nil map means no body, but a typed nil in an interface would be "null".
	var body any
	if len(v) > 0 {
		body = v
	}
	switch method {
	case http.MethodGet:
		err = c.api.GetWithParams(ctx, path, body, &data)
	case http.MethodDelete:
		err = c.api.DeleteWithParams(ctx, path, body, &data)
	case http.MethodPost:
		err = c.api.Post(ctx, path, body, &data)
	case http.MethodPut:
		err = c.api.Put(ctx, path, body, &data)
	default:
		err = fmt.Errorf("no method %s", method)
	}
	if err != nil && ctx.Err() != nil {
		// The library's error text varies here. The server may have done the request.
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return data, err
}

// list asks for an array of objects.
func (c *client) list(ctx context.Context, path string, v values) ([]object, error) {
	data, err := c.send(ctx, http.MethodGet, path, v)
	if err != nil {
		return nil, err
	}
	return decodeObjects(data)
}

// get asks for one object.
func (c *client) get(ctx context.Context, path string, v values) (object, error) {
	data, err := c.send(ctx, http.MethodGet, path, v)
	if err != nil {
		return nil, err
	}
	return decodeObject(data)
}

// start sends a request that begins a task and returns its UPID. If the answer has no UPID, the
// work is done.
func (c *client) start(ctx context.Context, method, path string, v values) (string, error) {
	data, err := c.send(ctx, method, path, v)
	if err != nil || len(data) == 0 {
		return "", err
	}
	task, err := decodeText(data)
	if err == nil && task != "" {
		_, err = nodeOf(task)
	}
	return task, err
}

// path joins the parts of a path, each escaped.
func path(parts ...string) string {
	var s strings.Builder
	for _, p := range parts {
		s.WriteString("/" + url.PathEscape(p))
	}
	return s.String()
}
