package proxmox

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// object is one JSON object of an answer. The API writes a number as 2048 or as "2048", and a
// boolean as 1, "1" or true. Here all are texts. A member of an object in it has both names, "ha.managed". Lists are left out.
type object map[string]string

// maxAnswer is the size in bytes of the largest answer. A list of ten thousand guests takes
// less than a quarter of it.
const maxAnswer = 16 << 20

// decodeAnswer returns the data of an answer: a JSON object with the member data. The data is
// empty for null. The member itself must be there.
func decodeAnswer(body []byte) ([]byte, error) {
	var a struct {
		Data jsontext.Value `json:"data"`
	}
	// The decoder of the data refuses text that is not UTF-8, if the driver reads the data.
	if err := json.Unmarshal(body, &a, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("an answer that is no object: %w", err)
	}
	switch a.Data.Kind() {
	case jsontext.KindInvalid:
		return nil, errors.New("an answer without data")
	case jsontext.KindNull:
		return nil, nil
	}
	return a.Data, nil
}

// decodeObject reads one object.
func decodeObject(b []byte) (object, error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("an answer that is no object: %w", err)
	}
	if fields == nil {
		return nil, errors.New("an answer with nothing in it")
	}
	return scalars(fields)
}

// decodeObjects reads an array of objects.
func decodeObjects(b []byte) ([]object, error) {
	var rows []map[string]jsontext.Value
	if err := json.Unmarshal(b, &rows); err != nil {
		return nil, fmt.Errorf("an answer that is no list: %w", err)
	}
	if rows == nil {
		// [] is an empty list, but null is no list. The driver believes that there are no
		// guests only if the answer says so.
		return nil, errors.New("an answer with nothing in it, where a list belongs")
	}
	out := make([]object, len(rows))
	for i, fields := range rows {
		var err error
		if out[i], err = scalars(fields); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodeTree reads an object of objects.
func decodeTree(b []byte) (map[string]object, error) {
	var tree map[string]map[string]jsontext.Value
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil, fmt.Errorf("an answer that is no object of objects: %w", err)
	}
	out := make(map[string]object, len(tree))
	for k, fields := range tree {
		var err error
		if out[k], err = scalars(fields); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodeText reads a string, or null, which is "".
func decodeText(b []byte) (string, error) {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return "", fmt.Errorf("an answer that is no text: %w", err)
	}
	if s == nil {
		return "", nil
	}
	return *s, nil
}

func scalars(fields map[string]jsontext.Value) (object, error) {
	out := make(object, len(fields))
	for k, v := range fields {
		switch v.Kind() {
		case '"':
			s, err := decodeText(v)
			if err != nil {
				return nil, err
			}
			out[k] = s
		case '0':
			out[k] = string(bytes.TrimSpace(v))
		case 't':
			out[k] = "1"
		case 'f':
			out[k] = "0"
		case '{':
			inner, err := decodeObject(v)
			if err != nil {
				return nil, err
			}
			for name, text := range inner {
				out[k+"."+name] = text
			}
		}
	}
	return out, nil
}

// integer returns a whole number, or 0 if it is missing.
func (o object) integer(key string) (int64, error) {
	s := o[key]
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("an answer whose %s is %q, no whole number", key, s)
	}
	return n, nil
}

// readAll reads a body of at most maxAnswer bytes.
func readAll(body io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	return b, err
}

// answered is an error that the server answered: it got the request and says why it did not do
// it.
type answered struct {
	status int
	reason string // of the status line; Proxmox VE writes the text of an error there
	fields string // the errors of single parameters
}

func (e *answered) Error() string {
	s := fmt.Sprintf("Proxmox VE answers %d", e.status)
	if e.reason != "" {
		s += ": " + e.reason
	}
	if e.fields != "" {
		s += " " + e.fields
	}
	return op.Shown(s)
}

// pveproxy answers with these statuses if it could not pass a request on to the guest's node.
// For 595 there was no connection. For 596 and above, the node may have got the request.
const (
	noConnection = 595
	brokenOff    = 596
)

// unsentError is why a request was not sent: this daemon may not act now.
type unsentError struct{ error }

// untouched reports if the error means that nothing was done. Either the request was not sent,
// or the server says that it refused it.
func untouched(err error) bool {
	if unsent := new(unsentError); errors.As(err, &unsent) {
		return true
	}
	var e *answered
	if errors.As(err, &e) {
		return e.status < 596 && e.status != http.StatusBadGateway && e.status != http.StatusGatewayTimeout
	}
	var dial *net.OpError
	var pin *pinError
	var cert *tls.CertificateVerificationError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &pin) || errors.As(err, &cert)
}

// passing reports if a later request may get another answer.
func passing(err error) bool {
	var e *answered
	if !errors.As(err, &e) {
		return true
	}
	switch e.status {
	case noConnection, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return true
	}
	return e.says("got timeout") || e.says("is locked") || e.says("modified configuration") || e.says("checksum mis")
}

func (e *answered) says(what string) bool { return strings.Contains(e.reason, what) }

// missing reports if the answer says that a guest, a task or a volume does not exist.
func missing(err error) bool {
	var e *answered
	return errors.As(err, &e) && (e.status == http.StatusNotFound || e.says("does not exist") || e.says("no such"))
}

// unreachable is the refusal of a look, or of a request before the permit's use. Nothing is
// known, and the error may go away.
func unreachable(err error) error {
	if err == nil {
		return nil
	}
	var r *refusal.Refusal
	if errors.As(err, &r) {
		return err
	}
	var e *answered
	hint := "gated doctor checks the back end"
	switch {
	case errors.As(err, &e) && e.status == http.StatusUnauthorized:
		hint = "the token is not valid any more; put a new one into proxmox.token_file"
	case errors.As(err, &e) && e.status == http.StatusForbidden:
		hint = "the token lacks a privilege; gated doctor names it"
	}
	return refusal.New(refusal.Unavailable, "Proxmox VE: %s", worded(err)).WithHint("%s", hint)
}

// worded removes the address from the HTTP client's error.
func worded(err error) string {
	var e *answered
	switch {
	case errors.As(err, &e):
		return e.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return op.Shown(err.Error())
		}
		err = inner
	}
}

// worked says how the work ended if its request failed with err after the permit was used.
func worked(what string, err error) error {
	if err == nil {
		return nil
	}
	var r *refusal.Refusal
	if errors.As(err, &r) || driver.IsUnknown(err) || driver.IsTransient(err) {
		return err
	}
	said := fmt.Errorf("%s: %s", what, worded(err))
	switch {
	case !untouched(err):
		return driver.Unknown(said)
	case passing(err):
		return driver.Transient(said)
	}
	return said
}
