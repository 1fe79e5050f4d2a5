package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

const consoleOrigin = "https://console.example.com"

func TestConsoleFlags(t *testing.T) {
	good := consoleFlags{origin: consoleOrigin, listen: "127.0.0.1:0", cert: "c", key: "k"}
	require.Equal(t, "console.example.com", must.Get(good.check())(t))
	parent := good
	parent.rpID = "example.com"
	require.Equal(t, "example.com", must.Get(parent.check())(t))
	for what, change := range map[string]func(*consoleFlags){
		"no origin":           func(f *consoleFlags) { f.origin = "" },
		"an origin with path": func(f *consoleFlags) { f.origin += "/" },
		"http":                func(f *consoleFlags) { f.origin = "http://console.example.com" },
		"http on loopback":    func(f *consoleFlags) { f.origin = "http://localhost:7443" },
		"no certificate":      func(f *consoleFlags) { f.cert = "" },
		"no key":              func(f *consoleFlags) { f.key = "" },
		"TLS over a socket":   func(f *consoleFlags) { f.listen = "unix:/run/x" },
		"a relative socket":   func(f *consoleFlags) { f.listen, f.cert, f.key = "unix:x", "", "" },
		"another RP ID":       func(f *consoleFlags) { f.rpID = "example.org" },
		"a child RP ID":       func(f *consoleFlags) { f.rpID = "a.console.example.com" },
		"a top-level RP ID":   func(f *consoleFlags) { f.rpID = "com" },
		"half a label":        func(f *consoleFlags) { f.rpID = "ole.example.com" },
	} {
		f := good
		change(&f)
		require.Equal(t, api.ExitUsage, api.Exit(must.Err(f.check())(t, what)), what)
	}
}

// aGate answers at a socket as a gate of another user with so many requests. It calls read once all of them were read.
func aGate(t *testing.T, path string, i, n int, read func(), lists ...api.Trust) {
	t.Helper()
	l := must.Get(net.Listen("unix", path))(t)
	require.NoError(t, os.Chmod(path, 0o666))
	id, host := op.GateID(fmt.Sprintf("%032x", i)), fmt.Sprintf("pve%d", i)
	requests := []api.Request{}
	for j := range n {
		r := api.Request{ID: op.StepID{Job: op.JobID(j + 1), Index: 1}.String(), Gate: id, Host: host, State: op.StatePending, Op: "guest.destroy",
			Target: fmt.Sprintf("guest/web-%d", j), Params: api.Params{}, Reason: "no longer needed", RequestedBy: []string{"agent:builder#7"}}
		for k := range 30 {
			r.Facts = append(r.Facts, api.Fact{Name: fmt.Sprintf("fact %d", k), Text: strings.Repeat("what would be lost ", 3)})
		}
		requests = append(requests, r)
	}
	answers := map[string]any{"/v1/status": api.Status{Gate: id, Host: host, Epoch: 1}, "/v1/audit/head": api.Head{Seq: 1},
		"/v1/trust": slices.Concat(lists, []api.Trust{{Epoch: 1}})[0], "/v1/requests": api.RequestList{Requests: requests}}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			read()
			<-r.Context().Done()
			return
		}
		b, err := api.Encode(answers[r.URL.Path])
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", api.ContentType)
		_, _ = w.Write(b)
	})}
	go func() { _ = s.Serve(l) }() // it ends as s is closed
	t.Cleanup(func() { _ = s.Close() })
}

// certify writes a certificate of the console.
func (u *tourist) certify() {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(u.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"console.example.com"}, NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(u.t)
	b := must.Get(x509.MarshalPKCS8PrivateKey(key))(u.t)
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: b}} {
		require.NoError(u.t, os.WriteFile(filepath.Join(u.home, name), pem.EncodeToMemory(block), 0o600))
		require.NoError(u.t, os.Chown(filepath.Join(u.home, name), touristUID, touristUID))
	}
}

// console starts the console, and returns where it listens, its log, and what signals it: a SIGTERM has to end it well.
func (u *tourist) console(args ...string) (at string, log *lines, end func(syscall.Signal)) {
	at, log, _, end = u.consoleProcess(append([]string{"--gate", filepath.Join(u.home, "gate")}, args...)...)
	return at, log, end
}

func (u *tourist) consoleProcess(args ...string) (at string, log *lines, pid int, end func(syscall.Signal)) {
	u.t.Helper()
	path := filepath.Join(u.home, "n")
	notify := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(u.t)
	require.NoError(u.t, os.Chmod(path, 0o666))
	argv := append([]string{"gated", "console", "--origin", consoleOrigin}, args...)
	cmd := u.command([]string{"HOME=" + u.home, "NOTIFY_SOCKET=" + path}, argv...)
	log = new(lines)
	cmd.Stderr = log
	require.NoError(u.t, cmd.Start())
	require.NoError(u.t, notify.SetReadDeadline(time.Now().Add(time.Minute)))
	buf := make([]byte, 100)
	n, err := notify.Read(buf)
	require.NoError(u.t, err, log.String())
	require.Equal(u.t, "READY=1", string(buf[:n]))
	listening := regexp.MustCompile(`msg=listening .* at=(\S+)`)
	said(u.t, log, listening)
	return listening.FindStringSubmatch(log.String())[1], log, cmd.Process.Pid, func(s syscall.Signal) {
		require.NoError(u.t, cmd.Process.Signal(s))
		if s != syscall.SIGTERM {
			return
		}
		require.NoError(u.t, cmd.Wait(), log.String())
		require.NoError(u.t, notify.Close())
		require.NoError(u.t, os.Remove(path))
	}
}

// said waits until a log has a match.
func said(t *testing.T, log *lines, what *regexp.Regexp) {
	t.Helper()
	require.Eventually(t, func() bool { return what.MatchString(log.String()) }, time.Minute, time.Millisecond)
}

// get asks the console at an address for a page.
func get(t *testing.T, network, at, url string) (status int, page, location string) {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at)
		}}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Get(c.Get(url))(t)
	defer resp.Body.Close()
	require.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(t)), resp.Header.Get("Location")
}

func TestConsoleOverTLS(t *testing.T) {
	u := newTourist(t)
	u.certify()
	aGate(t, filepath.Join(u.home, "gate"), 1, 0, func() {})
	at, log, end := u.console("--listen", "127.0.0.1:0", "--cert", "cert.pem", "--key", "key.pem")
	status, _, location := get(t, "tcp", at, consoleOrigin+"/g/pve1")
	require.Equal(t, http.StatusSeeOther, status)
	require.Equal(t, "/sign-in?to=%2Fg%2Fpve1", location)
	status, page, _ := get(t, "tcp", at, "https://evil.example/")
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.Contains(t, page, "Open "+consoleOrigin)
	status, _, _ = get(t, "tcp", at, "https://"+at+"/")
	require.Equal(t, http.StatusMisdirectedRequest, status)
	end(syscall.SIGHUP)
	said(t, log, regexp.MustCompile("the certificate was read again"))
	end(syscall.SIGTERM)
}

func TestConsoleBehindAProxy(t *testing.T) {
	u := newTourist(t)
	aGate(t, filepath.Join(u.home, "gate"), 1, 0, func() {})
	path := filepath.Join(u.home, "http.sock")
	_, log, end := u.console("--listen", "unix:"+path)
	require.Equal(t, os.FileMode(0o660), must.Get(os.Stat(path))(t).Mode().Perm())
	status, _, _ := get(t, "unix", path, "http://console.example.com/")
	require.Equal(t, http.StatusSeeOther, status)
	status, _, _ = get(t, "unix", path, "http://localhost/")
	require.Equal(t, http.StatusMisdirectedRequest, status)
	out := u.run([]string{"HOME=" + u.home}, api.ExitInternal, "gated", "console", "--origin", consoleOrigin, "--gate", u.home+"/gate", "--listen", "unix:"+path)
	require.Contains(t, out, "is in use")
	end(syscall.SIGHUP)
	said(t, log, regexp.MustCompile("no certificate to read again"))
	end(syscall.SIGTERM)

	// One that was killed leaves its socket behind.
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	require.NoError(t, os.Chown(path, touristUID, touristUID))
	_, _, end = u.console("--listen", "unix:"+path)
	end(syscall.SIGTERM)
}

func TestConsoleRefusesToBeMore(t *testing.T) {
	u := newTourist(t)
	u.certify()
	bare := []string{"HOME=" + u.home}
	argv := []string{"gated", "console", "--origin", consoleOrigin, "--cert", "cert.pem", "--key", "key.pem", "--listen", "127.0.0.1:0"}
	u.run(bare, api.ExitDone, "gated", "init", "--operator", "key.pub")
	defer u.serve(bare...)()
	out := u.run(bare, api.ExitRefused, argv...)
	require.Contains(t, out, "runs as this user")

	root := u.command(bare, argv...)
	root.SysProcAttr = nil
	text, _ := root.CombinedOutput() // the code is compared
	require.Equal(t, api.ExitRefused, root.ProcessState.ExitCode(), string(text))
	require.Contains(t, string(text), "does not run as root")
}
