package browser_test

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/browser"
	"gated/internal/test/must"
	"gated/internal/web/passkey"
	"gated/internal/web/passkey/passkeytest"
)

const namespace = "operational@gated"

var message = []byte(`{"op":"guest.destroy","target":"guest/db1"}`)

//go:embed testdata/sign.html
var signHTML []byte

// site is a page that makes a passkey and signs a challenge, and keeps what it posts.
type site struct {
	url string

	mu     sync.Mutex
	spki   []byte
	signed []byte
}

func newSite(t *testing.T) *site {
	s := &site{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { w.Write(signHTML) })
	mux.HandleFunc("GET /challenge", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, base64.RawURLEncoding.EncodeToString(passkey.Challenge(namespace, message)))
	})
	keep := func(into *[]byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, passkey.MaxAssertion))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			*into = b
		}
	}
	mux.HandleFunc("POST /key", keep(&s.spki))
	mux.HandleFunc("POST /signed", keep(&s.signed))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return s
}

// key returns the passkey that was made on the site's page.
func (s *site) key(t *testing.T) passkey.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return must.Get(passkey.NewKey(s.spki, "localhost"))(t)
}

func (s *site) assertion(t *testing.T) passkey.Assertion {
	s.mu.Lock()
	defer s.mu.Unlock()
	return must.Get(passkey.DecodeAssertion(s.signed))(t)
}

// press presses a button of the page and waits until it has done its work.
func press(tab *browser.Tab, id string) {
	tab.Click("#" + id)
	tab.WaitText("#state", id+" done")
}

// keygenVerifies asks the real ssh-keygen about a signature over message.
func keygenVerifies(t *testing.T, key passkey.Key, armored string) {
	t.Helper()
	line := fmt.Sprintf("alice@example.com namespaces=%q %s", namespace, key.Line())
	require.NoError(t, passkeytest.KeygenVerifies(t, line, "alice@example.com", namespace, armored, message))
}

func TestOpenSSHVerifiesPasskeysOfABrowser(t *testing.T) {
	t.Parallel()
	b, challenge := browser.Start(t), passkey.Challenge(namespace, message)
	for name, c := range map[string]struct {
		kind       browser.Kind
		unverified bool
		flags      byte
	}{
		"security key": {browser.SecurityKey, false, 0x05},
		"touch alone":  {browser.SecurityKey, true, 0x01},
		"synced":       {browser.Phone, false, 0x1d},
		"extensions":   {browser.BlobKey, false, 0x9d},
	} {
		t.Run(name, func(t *testing.T) {
			s, tab := newSite(t), b.Tab(t)
			device := tab.Authenticator(c.kind)
			tab.Open(s.url)
			press(tab, "make")
			device.Unverified(c.unverified)
			press(tab, "sign")
			key, a := s.key(t), s.assertion(t)
			require.Equal(t, c.flags, a.AuthenticatorData[32], "flags %#x", a.AuthenticatorData[32])
			made, ok := a.Made(key)
			require.True(t, ok)
			require.Equal(t, key, made)
			require.Equal(t, s.url, a.Origin())
			keygenVerifies(t, key, must.Get(a.Armor(key, namespace, challenge))(t))
		})
	}
}

// A page of another port of localhost can use a passkey of localhost, and OpenSSH takes
// its signature. What tells them apart is the origin inside.
func TestAnotherPortSignsWithItsOwnOrigin(t *testing.T) {
	t.Parallel()
	tab := browser.Start(t).Tab(t)
	ours, other := newSite(t), newSite(t)
	tab.Authenticator(browser.Phone)
	tab.Open(ours.url)
	press(tab, "make")
	tab.Open(other.url)
	press(tab, "sign")
	key, a := ours.key(t), other.assertion(t)
	require.Equal(t, other.url, a.Origin())
	require.NotEqual(t, ours.url, a.Origin())
	armored := must.Get(a.Armor(key, namespace, passkey.Challenge(namespace, message)))(t)
	keygenVerifies(t, key, armored)
}

func TestNobodyTouches(t *testing.T) {
	t.Parallel()
	tab, s := browser.Start(t).Tab(t), newSite(t)
	device := tab.Authenticator(browser.SecurityKey)
	tab.Open(s.url)
	press(tab, "make")
	require.Len(t, device.Passkeys(), 1)
	device.Touch(false)
	tab.Click("#sign")
	tab.Click("#stop")
	tab.WaitText("#state", "AbortError")
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.signed)
}

func TestASyncedPasskeySignsOnASecondDevice(t *testing.T) {
	t.Parallel()
	b, s := browser.Start(t), newSite(t)
	first, second := b.Person(t), b.Person(t)
	device := first.Authenticator(browser.Phone)
	first.Open(s.url)
	press(first, "make")
	second.Authenticator(browser.Phone).Add(device.Passkeys()[0])
	second.Open(s.url)
	press(second, "sign")
	key := s.key(t)
	armored := must.Get(s.assertion(t).Armor(key, namespace, passkey.Challenge(namespace, message)))(t)
	keygenVerifies(t, key, armored)
}

// What a page says is how other tests see a refusal by its content security policy.
func TestATabHearsItsPage(t *testing.T) {
	t.Parallel()
	tab := browser.Start(t).Tab(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		io.WriteString(w, `<title>quiet</title><p>hello</p><script>document.title = "loud"</script>`)
	}))
	t.Cleanup(server.Close)
	tab.Size(360, 640)
	tab.Open(server.URL)
	require.Equal(t, "quiet", tab.Title())
	require.Equal(t, server.URL+"/", tab.URL())
	require.Equal(t, 360, browser.Eval[int](tab, `Promise.resolve(innerWidth)`))
	require.True(t, bytes.HasPrefix(tab.Screenshot(), []byte("\x89PNG")))
	require.Contains(t, strings.Join(tab.Said(), "\n"), "Content Security Policy")
}
