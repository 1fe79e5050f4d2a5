package proxmox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

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

// untouched reports if the error means that nothing was done. Either the request was not sent,
// or the server says that it refused it.
func untouched(err error) bool {
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
