package hubserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// token is what callers present. It is compared by its digest, because that takes the same time for each text.
type token string

// tokenOf returns the token in a file, empty without a file.
func tokenOf(file string) (token, error) {
	if file == "" {
		return "", nil
	}
	t, err := ownfile.ReadToken(file)
	if err != nil {
		return "", refusal.New(refusal.BadParams, "%s", refusal.As(err).Detail).
			WithHint("a token file is one line, and its owner's alone: chmod 600 %s", file)
	}
	return token(t), nil
}

func (t token) is(sent string) bool {
	want, got := sha256.Sum256([]byte(t)), sha256.Sum256([]byte(sent))
	return t != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// HostToken returns the token of one host, which a hub takes in the place of the gates' token for the calls of that host
// alone: HMAC-SHA256 (RFC 2104) of its name under the gates' token, as base64url.
func HostToken(gates, host string) string {
	mac := hmac.New(sha256.New, []byte(gates))
	mac.Write([]byte("gated hub host v1\x00" + host))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// hostOf returns the host that a call is of; empty if it is of none. A name with a slash, which a call can have escaped,
// has one segment too many.
func hostOf(path string) string {
	if parts := strings.Split(path, "/"); len(parts) == 5 && parts[1] == "v1" && parts[2] == "hosts" {
		return parts[3]
	}
	return ""
}

// admit lets a caller in that has a token: as a bearer, or as a browser's password. Without a token, the host name in
// the request must be this machine's. Otherwise a web page elsewhere could read, through a browser here, what only this
// machine may reach.
func (h *Hub) admit(w http.ResponseWriter, r *http.Request) error {
	if h.token == "" {
		name := r.Host
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			name = host
		}
		if !near(strings.Trim(name, "[]")) {
			return refusal.New(refusal.NotAllowed, "%q is not a name of this machine", op.Shown(name))
		}
		return nil
	}
	sent, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		_, sent, _ = r.BasicAuth()
	}
	if h.token.is(sent) {
		return nil
	}
	if host := hostOf(r.URL.Path); host != "" && token(HostToken(string(h.token), host)).is(sent) {
		return nil
	}
	if h.reader.is(sent) {
		if r.Method == http.MethodGet && (r.URL.Path == "/" || r.URL.Path == "/v1/queue" || strings.HasPrefix(r.URL.Path, "/v1/heads/")) {
			return nil
		}
		return refusal.New(refusal.NotAllowed, "the readers' token reads the page, the queue and heads alone")
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="gated hub", charset="UTF-8"`)
	return refusal.New(refusal.NotAllowed, "that is not this hub's token")
}
