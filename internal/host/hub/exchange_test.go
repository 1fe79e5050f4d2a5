package hub_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/test/must"
)

const jsonType = "application/json"

// poller is a link alone, which is read and never relays.
func poller(url string, change ...func(*hub.Config)) *hub.Link {
	c := hub.Config{URL: url, Host: testHost, Interval: time.Minute, Timeout: patience, Report: time.Hour, Now: func() time.Time { return noon }}
	for _, f := range change {
		f(&c)
	}
	return hub.New(c)
}

// badAnswers are answers of which nothing may be planned.
var badAnswers = map[string]struct {
	handler http.HandlerFunc
	want    refusal.Code
	says    string
}{
	"500":              {status(500), refusal.Unavailable, "answered 500"},
	"204":              {status(204), refusal.Unavailable, "answered 204"},
	"206":              {status(206), refusal.Unavailable, "answered 206"},
	"304 to nothing":   {status(304), refusal.Malformed, "answered 304"},
	"401":              {status(401), refusal.NotAllowed, "answered 401"},
	"403":              {status(403), refusal.NotAllowed, "answered 403"},
	"404":              {status(404), refusal.UnknownTarget, "nothing for the host"},
	"redirect":         {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, refusal.Malformed, "redirects"},
	"HTML":             {says("text/html", "", "<!DOCTYPE html><html>login</html>"), refusal.Malformed, `"text/html`},
	"HTML as JSON":     {says(jsonType, "", "<!DOCTYPE html>"), refusal.Malformed, "broken"},
	"no type":          {says("", "", document("r", map[string]string{"a": doc("[]")})), refusal.Malformed, "the type"},
	"empty":            {says(jsonType, "", ""), refusal.Malformed, "empty"},
	"null":             {says(jsonType, "", "null"), refusal.Malformed, "null"},
	"a list":           {says(jsonType, "", "[]"), refusal.Malformed, "wrong type"},
	"two documents":    {says(jsonType, "", document("r", map[string]string{"a": doc("[]")})+"{}"), refusal.Malformed, "broken"},
	"cut off JSON":     {says(jsonType, "", document("r", map[string]string{"a": doc("[]")})[:50]), refusal.Malformed, ""},
	"no sets":          {says(jsonType, "", `{"revision":"r","host":"pve1"}`), refusal.Malformed, "no set"},
	"empty sets":       {says(jsonType, "", `{"revision":"r","host":"pve1","sets":{}}`), refusal.Malformed, "no set"},
	"no revision":      {says(jsonType, "", `{"host":"pve1","sets":{"a":"x"}}`), refusal.Malformed, "revision"},
	"a long revision":  {says(jsonType, "", document(strings.Repeat("r", 129), map[string]string{"a": doc("[]")})), refusal.Malformed, "revision"},
	"a hidden letter":  {says(jsonType, "", document("r\u202e", map[string]string{"a": doc("[]")})), refusal.Malformed, "revision"},
	"another host":     {says(jsonType, "", strings.Replace(document("r", map[string]string{"a": doc("[]")}), `"host":"pve1"`, `"host":"pve2"`, 1)), refusal.TargetMismatch, "pve2"},
	"another's set":    {says(jsonType, "", document("r", map[string]string{"a": strings.Replace(doc("[]"), "pve1", "pve2", 1)})), refusal.TargetMismatch, "a: "},
	"no host":          {says(jsonType, "", `{"revision":"r","sets":{"a":"x"}}`), refusal.TargetMismatch, ""},
	"a doubled set":    {says(jsonType, "", `{"revision":"r","host":"pve1","sets":{"a":"x","a":"x"}}`), refusal.Malformed, "twice"},
	"a doubled member": {says(jsonType, "", `{"revision":"r","host":"pve1","sets":{"a":"x"},"sets":{}}`), refusal.Malformed, "twice"},
	"another case":     {says(jsonType, "", `{"revision":"r","Host":"pve1","sets":{"a":"x"}}`), refusal.Malformed, "does not belong"},
	"more members":     {says(jsonType, "", `{"revision":"r","host":"pve1","sets":{"a":"x"},"operations":[]}`), refusal.Malformed, "does not belong"},
	"a null set":       {says(jsonType, "", `{"revision":"r","host":"pve1","sets":{"a":null}}`), refusal.Malformed, "null"},
	"a set's name":     {says(jsonType, "", document("r", map[string]string{"../a": doc("[]")})), refusal.Malformed, "name of a set"},
	"an empty set":     {says(jsonType, "", document("r", map[string]string{"a": ""})), refusal.Malformed, "a:1"},
	"a broken set":     {says(jsonType, "", document("r", map[string]string{"a": doc("[]"), "b": "x: ["})), refusal.Malformed, "b:"},
	"not UTF-8":        {says(jsonType, "", `{"revision":"r","host":"pve1","sets":{"a":"`+"\xff"+`"}}`), refusal.Malformed, ""},
	"too many sets":    {says(jsonType, "", document("r", manySets(hub.MaxSets+1))), refusal.Oversized, "more than 1000"},
	"gzip": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(200)
	}, refusal.Malformed, "encoding"},
	"shorter than said": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, document("r", map[string]string{"a": doc("[]")}))
	}, refusal.Unavailable, "broke off"},
	"an abort": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, document("r", map[string]string{"a": doc("[]")}))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}, refusal.Unavailable, "broke off"},
	"said to be 2 GiB": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.Header().Set("Content-Length", "2147483648")
		w.WriteHeader(200)
	}, refusal.Oversized, "more than"},
	"endless headers": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 1<<20))
		w.WriteHeader(200)
	}, refusal.Unavailable, "cannot be reached"},
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func manySets(n int) map[string]string {
	sets := map[string]string{}
	for i := range n {
		sets[fmt.Sprintf("s%d", i)] = doc("[]")
	}
	return sets
}

// TestBadAnswers: each is an error of the source, at first and after a good
// answer, and what was read is there again with the next 304.
func TestBadAnswers(t *testing.T) {
	for name, c := range badAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace()
			s := httptest.NewServer(p)
			defer s.Close()
			p.on(hub.PathDesired, c.handler)
			l := poller(s.URL)
			_, err := l.Read(t.Context())
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)

			good := poller(s.URL)
			p.wish("r1", "[{name: a, state: absent}]")
			docs := must.Get(good.Read(t.Context()))(t)
			require.Len(t, docs, 1)
			<-good.Changed()
			if name != "304 to nothing" {
				p.on(hub.PathDesired, c.handler)
				good.Poll(t.Context())
				docs, err = good.Read(t.Context())
				require.ErrorIs(t, err, c.want)
				require.Empty(t, docs)
				<-good.Changed()
				good.Poll(t.Context())
				require.Empty(t, good.Changed(), "the same again is no news")
			}
			p.wish("r1", "[{name: a, state: absent}]")
			good.Poll(t.Context())
			require.Len(t, must.Get(good.Read(t.Context()))(t), 1)
			require.Equal(t, `"r1"`, p.headers[len(p.headers)-1].Get("If-None-Match"))
		})
	}
}

// TestTwoGibibytes: an answer without an end costs what may be read of it.
func TestTwoGibibytes(t *testing.T) {
	var sent atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range 2048 {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	defer s.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	must.Fail(poller(s.URL).Read(t.Context()))(t, refusal.Oversized)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*hub.MaxAnswer))
	require.Less(t, sent.Load(), int64(256<<20), "the rest is not read")
}

// TestAHubThatDoesNotAnswer is given up after the timeout, whatever it sends
// meanwhile.
func TestAHubThatDoesNotAnswer(t *testing.T) {
	for name, h := range map[string]func(http.ResponseWriter, *http.Request, <-chan struct{}){
		"silent": func(_ http.ResponseWriter, _ *http.Request, end <-chan struct{}) { <-end },
		"slow": func(w http.ResponseWriter, _ *http.Request, end <-chan struct{}) {
			w.Header().Set("Content-Type", jsonType)
			_, _ = io.WriteString(w, `{"revision":"`)
			_ = http.NewResponseController(w).Flush()
			<-end
		},
	} {
		end := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, end) }))
		_, err := poller(s.URL, func(c *hub.Config) { c.Timeout = 50 * time.Millisecond }).Read(t.Context())
		require.ErrorIs(t, err, refusal.Unavailable, name)
		require.Regexp(t, "within 50ms|did not arrive in time", err.Error(), name)
		close(end)
		s.Close()
	}
}

func TestReadsThatAreCutOffSayNothing(t *testing.T) {
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer s.Close()
	defer close(end)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := poller(s.URL)
	must.Fail(l.Read(ctx))(t, refusal.Unavailable)
	require.True(t, l.Status().PolledAt.IsZero())
}

func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	return path
}

func tlsPlace(t *testing.T, change func(*tls.Config)) (*place, *httptest.Server) {
	t.Helper()
	p := newPlace()
	p.wish("r1", "[]")
	s := httptest.NewUnstartedServer(p)
	s.Config.ErrorLog = quiet(t)
	s.TLS = &tls.Config{}
	if change != nil {
		change(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return p, s
}

func TestCertificates(t *testing.T) {
	p, s := tlsPlace(t, nil)
	other := filepath.Join(t.TempDir(), "other.pem")
	require.NoError(t, os.WriteFile(other, otherCertificate(t), 0o644))

	// The system's certificates are not those that are pinned, and not the reverse.
	_, err := poller(s.URL).Read(t.Context())
	require.ErrorIs(t, err, refusal.NotAllowed)
	_, err = poller(s.URL, func(c *hub.Config) { c.CA = other }).Read(t.Context())
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, "does not trust the hub")
	require.Zero(t, p.count(hub.PathDesired), "nothing was asked of it")

	// A file that changes is read again.
	path := caFile(t, s)
	good := must.Get(os.ReadFile(path))(t)
	l := poller(s.URL, func(c *hub.Config) { c.CA = path })
	must.Get(l.Read(t.Context()))(t)
	require.NoError(t, os.WriteFile(path, otherCertificate(t), 0o644))
	l.Poll(t.Context())
	require.ErrorIs(t, l.Status().Err, refusal.NotAllowed)
	require.NoError(t, os.WriteFile(path, []byte("no certificate"), 0o644))
	l.Poll(t.Context())
	require.ErrorIs(t, l.Status().Err, refusal.Malformed)
	require.NoError(t, os.Remove(path))
	l.Poll(t.Context())
	require.ErrorIs(t, l.Status().Err, refusal.Unavailable)
	require.NoError(t, os.WriteFile(path, good, 0o644))
	l.Poll(t.Context())
	require.NoError(t, l.Status().Err)

	// Another name than the certificate's.
	_, port := must.Two(net.SplitHostPort(s.Listener.Addr().String()))(t)
	_, err = poller("https://localhost:"+port, func(c *hub.Config) { c.CA = path }).Read(t.Context())
	require.ErrorIs(t, err, refusal.NotAllowed)
}

func TestOldTLSIsRefused(t *testing.T) {
	p, s := tlsPlace(t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11; c.MinVersion = tls.VersionTLS10 })
	must.Err(poller(s.URL, func(c *hub.Config) { c.CA = caFile(t, s) }).Read(t.Context()))(t)
	require.Zero(t, p.count(hub.PathDesired))
}

// TestHTTPStaysHere: plain http reaches this machine alone, whatever the name
// stands for, and no proxy is asked.
func TestHTTPStaysHere(t *testing.T) {
	asked := make(chan struct{}, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	_, err := poller("http://192.0.2.1").Read(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "another machine")
	require.Empty(t, asked)
}

func TestTokens(t *testing.T) {
	p := newPlace()
	p.wish("r1", "[]")
	s := httptest.NewServer(p)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "token")
	l := poller(s.URL, func(c *hub.Config) { c.TokenFile = path })
	write := func(text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		require.NoError(t, os.Chmod(path, mode))
	}
	write("0123456789abcdef\n", 0o600)
	must.Get(l.Read(t.Context()))(t)
	require.Equal(t, "Bearer 0123456789abcdef", p.headers[0].Get("Authorization"))
	write("another-token-9876==", 0o400)
	l.Poll(t.Context())
	require.NoError(t, l.Status().Err)
	require.Equal(t, "Bearer another-token-9876==", p.headers[1].Get("Authorization"), "the file is read again")

	for _, c := range []struct {
		text string
		mode os.FileMode
		want refusal.Code
	}{
		{"0123456789abcdef", 0o640, refusal.NotAllowed}, {"0123456789abcdef", 0o604, refusal.NotAllowed}, {"0123456789abcdef", 0o660, refusal.NotAllowed},
		{"short", 0o600, refusal.Malformed}, {"", 0o600, refusal.Malformed}, {"0123456789abcdef\n\n", 0o600, refusal.Malformed},
		{"0123456789abcdef\r\nX: y", 0o600, refusal.Malformed}, {strings.Repeat("a", 1025), 0o600, refusal.Malformed},
	} {
		write(c.text, c.mode)
		l.Poll(t.Context())
		require.ErrorIs(t, l.Status().Err, c.want, "%q %o", c.text, c.mode)
		require.NotContains(t, l.Status().Err.Error(), "0123456789abcdef")
	}
	require.NoError(t, os.Remove(path))
	l.Poll(t.Context())
	require.ErrorIs(t, l.Status().Err, refusal.Unavailable)
	require.NoError(t, os.Symlink("/etc/passwd", path))
	l.Poll(t.Context())
	require.ErrorIs(t, l.Status().Err, refusal.NotAllowed)
	require.Len(t, p.headers, 2, "without a token nothing is asked")
}

func TestETags(t *testing.T) {
	p := newPlace()
	s := httptest.NewServer(p)
	defer s.Close()
	l := poller(s.URL)
	for _, c := range []struct{ tag, back string }{
		{`"a"`, `"a"`}, {`W/"b"`, `W/"b"`}, {"", ""}, {"bare", ""}, {`"`, ""}, {`"a"b"`, ""}, {`"` + strings.Repeat("x", 300) + `"`, ""},
	} {
		body := document("r-"+fmt.Sprint(len(c.tag)), map[string]string{"a": doc("[]")})
		p.on(hub.PathDesired, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", c.tag)
			w.Header().Set("Content-Type", jsonType)
			_, _ = io.WriteString(w, body)
		})
		l.Poll(t.Context())
		require.NoError(t, l.Status().Err, c.tag)
		l.Poll(t.Context())
		require.Equal(t, c.back, p.headers[len(p.headers)-1].Get("If-None-Match"), c.tag)
	}
}
