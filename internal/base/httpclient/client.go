// Package httpclient makes HTTP clients of one server each: they trust the certificates that they are told and nothing else,
// and leave this machine over TLS alone.
package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"
)

// maxHeader is the largest header of an answer, in bytes.
const maxHeader = 64 << 10

// New returns a client that trusts the certificates of the pool alone, or with nil those of the system. It
// follows no redirect, unpacks nothing and asks no proxy. With near it connects to this machine alone.
func New(pool *x509.CertPool, near bool) *http.Client {
	d := &net.Dialer{}
	if near {
		d.Control = nearOnly
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
			MaxConnsPerHost:        2,
			IdleConnTimeout:        90 * time.Second,
		},
	}
}

// nearOnly refuses a connection to another machine, whatever address a name resolves to.
func nearOnly(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errors.New(host + " is another machine, and http does not leave this one")
	}
	return nil
}
