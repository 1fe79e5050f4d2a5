package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"gated/client/api"
)

// Guests lists every guest as its driver sees it now, over all pages.
func (c *Client) Guests(ctx context.Context) ([]api.Guest, error) {
	var all []api.Guest
	for v := (url.Values{}); ; {
		var page api.GuestList
		if err := c.json(ctx, call{method: http.MethodGet, path: "/v1/guests", query: v}, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Guests...)
		if page.Next == nil {
			return all, nil
		}
		v.Set("after", *page.Next)
	}
}

// GuestPage lists at most limit guests whose names come after the given one, and after which to ask next.
func (c *Client) GuestPage(ctx context.Context, after string, limit int) (api.GuestList, error) {
	var out api.GuestList
	in := call{method: http.MethodGet, path: "/v1/guests", query: pageQuery(after, limit)}
	return out, c.json(ctx, in, nil, &out)
}

// pageQuery asks for one page of a list.
func pageQuery(after string, limit int) url.Values {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	if after != "" {
		v.Set("after", after)
	}
	return v
}

// Guest shows one guest.
func (c *Client) Guest(ctx context.Context, name string) (api.Guest, error) {
	var out api.Guest
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/guests/" + url.PathEscape(name)}, nil, &out)
}

// Backends returns the state of each back end of the gate, at most a few seconds old.
func (c *Client) Backends(ctx context.Context) ([]api.Backend, error) {
	var out api.BackendList
	err := c.json(ctx, call{method: http.MethodGet, path: "/v1/backends"}, nil, &out)
	return out.Backends, err
}

// Trust returns the list of signers in force, as the daemon has it.
func (c *Client) Trust(ctx context.Context) (api.Trust, error) {
	var out api.Trust
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/trust"}, nil, &out)
}

// AuditVerified returns what the daemon's own check of its audit log found last. It starts no check.
func (c *Client) AuditVerified(ctx context.Context) (api.Verified, error) {
	var out api.Verified
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/audit/verified"}, nil, &out)
}

// Commands lists the operator's catalogue of commands.
func (c *Client) Commands(ctx context.Context) ([]api.Command, error) {
	var out api.CommandList
	err := c.json(ctx, call{method: http.MethodGet, path: "/v1/commands"}, nil, &out)
	return out.Commands, err
}

// Health reports how the daemon is, in few words. A bad one is no error.
func (c *Client) Health(ctx context.Context) (api.HealthReport, error) {
	var out api.HealthReport
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/health", also: http.StatusServiceUnavailable}, nil, &out)
}

// Metrics returns the gate's metrics in Prometheus' text format 0.0.4.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	b, _, err := c.bytes(ctx, call{method: http.MethodGet, path: "/v1/metrics"})
	return b, err
}

// Steering lists the commands of a shell for which there is an operation.
func (c *Client) Steering(ctx context.Context) (api.Steering, error) {
	var out api.Steering
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/steering"}, nil, &out)
}

// Command shows one command.
func (c *Client) Command(ctx context.Context, name string) (api.Command, error) {
	var out api.Command
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/commands/" + url.PathEscape(name)}, nil, &out)
}

// Audit returns entries of the audit log with a number above after, oldest first. With limit 0, the daemon chooses.
func (c *Client) Audit(ctx context.Context, after int64, limit int) ([]api.Entry, error) {
	v := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	var out api.EntryList
	err := c.json(ctx, call{method: http.MethodGet, path: "/v1/audit", query: v}, nil, &out)
	return out.Entries, err
}

// Consistency returns the proof that the log's first old entries are among its first size. It is BadParams if the log
// is shorter.
func (c *Client) Consistency(ctx context.Context, old, size int64) (api.Consistency, error) {
	v := url.Values{"old": {strconv.FormatInt(old, 10)}, "size": {strconv.FormatInt(size, 10)}}
	var out api.Consistency
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/audit/consistency", query: v}, nil, &out)
}

// Inclusion returns an entry with the proof that it is in the log; UnknownTarget if there is no such entry.
func (c *Client) Inclusion(ctx context.Context, seq int64) (api.Inclusion, error) {
	v := url.Values{"seq": {strconv.FormatInt(seq, 10)}}
	var out api.Inclusion
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/audit/inclusion", query: v}, nil, &out)
}

// AuditHead returns the log's newest entry and the signed head.
func (c *Client) AuditHead(ctx context.Context) (api.Head, error) {
	var out api.Head
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/audit/head"}, nil, &out)
}

// Backup writes a consistent copy of the gate's state to w and returns its length in bytes. Only ctx bounds its time.
// After an error, the bytes in w are not a backup.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: "/v1/backup", lasts: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	from := &reader{r: resp.Body}
	n, err := io.Copy(w, from)
	if from.err != nil {
		return n, c.broken(ctx, from.err)
	}
	return n, err
}

// BackupVerified tells the gate that a copy of Backup was checked. sha256 is that of the whole copy, in hex. It is
// UnknownTarget if the gate knows of no such copy.
func (c *Client) BackupVerified(ctx context.Context, sha256 string) error {
	return c.json(ctx, call{method: http.MethodPost, path: "/v1/backup/verified"}, api.VerifiedBackup{SHA256: sha256}, nil)
}

// reader remembers its own error, so that a full disk of w is not mistaken for a lost daemon.
type reader struct {
	r   io.Reader
	err error
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
