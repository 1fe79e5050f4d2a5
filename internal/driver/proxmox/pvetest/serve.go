package pvetest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// refusal is an answer that is an error.
type refusal struct {
	status int
	reason string
	errors map[string]string
	log    string // the task's log before its end
}

func (r *refusal) Error() string { return r.reason }

// die is the answer to an exception in the server: 500 with the text as the reason.
func die(format string, args ...any) *refusal {
	return &refusal{status: http.StatusInternalServerError, reason: fmt.Sprintf(format, args...)}
}

// invalid is the answer to a parameter that the schema allows and the server's code refuses.
func invalid(name, why string) *refusal {
	return &refusal{status: http.StatusBadRequest, reason: "Parameter verification failed.",
		errors: map[string]string{name: why}}
}

// call is one request that followed the schema.
type call struct {
	endpoint
	v map[string]string // parameters, also those in the path
}

func (r call) has(name string) bool { _, ok := r.v[name]; return ok }

func (r call) flag(name string) bool {
	switch strings.ToLower(r.v[name]) {
	case "1", "on", "yes", "true":
		return true
	}
	return false
}

func (r call) vmid() int { n, _ := strconv.Atoi(r.v["vmid"]); return n }

func (r call) kind() string {
	if strings.HasPrefix(r.Path, "/nodes/{node}/lxc") {
		return "lxc"
	}
	return "qemu"
}

// ServeHTTP answers one request.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api2/json")
	if !ok {
		answer(w, nil, &refusal{status: 501, reason: "Method '" + r.Method + " " + r.URL.Path + "' " + noMethod})
		return
	}
	if refused := authorize(r.Header.Get("Authorization")); refused != nil {
		answer(w, nil, refused)
		return
	}
	req, refused := c.admit(r, path, body)
	if refused != nil {
		answer(w, nil, refused)
		return
	}
	c.perform(w, r, req)
}

// noMethod is the server's answer to an unknown path or method.
const noMethod = "not " + "implemented"

// authorize checks the token. Another scheme counts as no ticket.
func authorize(header string) *refusal {
	token, ok := strings.CutPrefix(header, "PVEAPIToken=")
	if !ok {
		return &refusal{status: http.StatusUnauthorized, reason: "No ticket"}
	}
	id, secret, _ := strings.Cut(token, "=")
	if id != TokenID {
		return &refusal{status: http.StatusUnauthorized, reason: "no such token '" + id + "'"}
	}
	if secret != Secret {
		return &refusal{status: http.StatusUnauthorized, reason: "invalid token value!"}
	}
	return nil
}

// admit checks a request against the schema and records violations.
func (c *Cluster) admit(r *http.Request, path string, body []byte) (call, *refusal) {
	e, vars, ok := loaded().find(r.Method, path)
	if !ok {
		c.violate("%s %s: no such path or method", r.Method, path)
		return call{}, &refusal{status: http.StatusNotImplemented,
			reason: "Method '" + r.Method + " " + path + "' " + noMethod}
	}
	values, err := parameters(r, body)
	if err != nil {
		c.violate("%s %s: %v", r.Method, path, err)
		return call{}, &refusal{status: http.StatusBadRequest, reason: "data is not what its type says"}
	}
	for name, v := range vars {
		if own, there := values[name]; there && own != v {
			c.violate("%s %s: parameter %s twice: %q", r.Method, path, name, own)
			return call{}, invalid(name, "duplicate parameter (already defined in URI) with conflicting values!")
		}
		values[name] = v
	}
	if wrong := e.check(values); len(wrong) > 0 {
		for _, name := range sortedKeys(wrong) {
			c.violate("%s %s: %s=%q: %s", r.Method, path, name, values[name], wrong[name])
		}
		return call{}, &refusal{status: http.StatusBadRequest, reason: "Parameter verification failed.", errors: wrong}
	}
	return call{endpoint: e, v: values}, nil
}

func (c *Cluster) violate(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// parameters reads the parameters from the query and from a body, a form or JSON.
func parameters(r *http.Request, body []byte) (map[string]string, error) {
	out := map[string]string{}
	if err := fromForm(out, r.URL.RawQuery); err != nil {
		return nil, err
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case len(body) == 0:
		return out, nil
	case r.Method == http.MethodGet || r.Method == http.MethodDelete:
		return nil, errors.New("a body in a request that has none")
	case kind == "application/x-www-form-urlencoded":
		return out, fromForm(out, string(body))
	case kind == "application/json":
		return out, fromJSON(out, body)
	}
	return nil, fmt.Errorf("content type %q", kind)
}

func fromForm(out map[string]string, text string) error {
	form, err := url.ParseQuery(text)
	if err != nil {
		return err
	}
	for name, values := range form {
		if len(values) != 1 {
			return fmt.Errorf("parameter %s is given %d times", name, len(values))
		}
		out[name] = values[0]
	}
	return nil
}

func fromJSON(out map[string]string, body []byte) error {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		return err
	}
	for name, v := range object {
		switch v := v.(type) {
		case string:
			out[name] = v
		case float64:
			out[name] = strconv.FormatFloat(v, 'f', -1, 64)
		case bool:
			out[name] = map[bool]string{true: "1", false: "0"}[v]
		default:
			return fmt.Errorf("parameter %s is no scalar", name)
		}
	}
	return nil
}

// answer writes the server's answer. It is {"data":...}, or an error with its text as the
// reason of the status line and only null in the body.
func answer(w http.ResponseWriter, data any, refused *refusal) {
	status, reason := http.StatusOK, "OK"
	object := map[string]any{"data": data}
	if refused != nil {
		status, reason = refused.status, strings.ReplaceAll(refused.reason, "\n", " ")
		object["message"] = refused.reason + "\n"
		if refused.errors != nil {
			object["errors"] = refused.errors
		}
	}
	body, err := json.Marshal(object, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("pvetest: answer: %v", err))
	}
	if status == http.StatusOK {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		_, _ = w.Write(body)
		return
	}
	write(w, status, reason, body)
}

// write writes an error on the bare connection, because net/http cannot write a reason. After
// any other answer the connection stays open.
func write(w http.ResponseWriter, status int, reason string, body []byte) {
	if status == http.StatusOK {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		_, _ = w.Write(body)
		return
	}
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(buffer, "HTTP/1.1 %d %s\r\nServer: pve-api-daemon/3.0\r\nContent-Type: application/json;charset=UTF-8\r\n"+
		"Connection: close\r\nContent-Length: %d\r\n\r\n", status, reason, len(body))
	_, _ = buffer.Write(body)
	_ = buffer.Flush()
}
