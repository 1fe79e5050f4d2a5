package page

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/cookiejar"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/web/passkey"
	"gated/internal/web/passkey/passkeytest"
	"gated/internal/wire/question"
)

// person is a browser without a screen: cookies, and a device with a passkey.
type person struct {
	c      *console
	client *http.Client
	device *passkeytest.Device
}

func (c *console) person(d *passkeytest.Device) *person {
	jar := must.Get(cookiejar.New(nil))(c.t)
	return &person{c: c, device: d, client: &http.Client{Jar: jar, Timeout: patience}}
}

// listed is a person whose passkey the gate lists, and who has signed in.
func (c *console) listed(principal string, roles ...op.Role) *person {
	p := c.person(c.device())
	c.gate.list(p.device, principal, roles...)
	c.caught()
	p.signIn()
	return p
}

// post sends an object as the module does, and returns the answer.
func (p *person) post(path string, body any) (status int, answer []byte) {
	p.c.t.Helper()
	b := must.Get(json.Marshal(body))(p.c.t)
	r := must.Get(http.NewRequest(http.MethodPost, p.c.origin+path, bytes.NewReader(b)))(p.c.t)
	r.Header.Set("Origin", p.c.origin)
	r.Header.Set("Content-Type", "application/json")
	return p.do(r)
}

func (p *person) get(path string) (status int, answer []byte) {
	p.c.t.Helper()
	return p.do(must.Get(http.NewRequest(http.MethodGet, p.c.origin+path, nil))(p.c.t))
}

func (p *person) do(r *http.Request) (status int, answer []byte) {
	p.c.t.Helper()
	resp := must.Get(p.client.Do(r))(p.c.t)
	defer resp.Body.Close()
	return resp.StatusCode, must.Get(io.ReadAll(resp.Body))(p.c.t)
}

// asked posts an object that has to be taken, and reads the answer.
func asked[T any](p *person, path string, body any) (v T) {
	p.c.t.Helper()
	status, b := p.post(path, body)
	require.Equal(p.c.t, http.StatusOK, status, "%s", b)
	require.NoError(p.c.t, json.Unmarshal(b, &v, json.RejectUnknownMembers(true)))
	return v
}

// refused posts an object that has to be refused, and returns why.
func (p *person) refused(path string, body any) api.Problem {
	p.c.t.Helper()
	status, b := p.post(path, body)
	require.NotEqual(p.c.t, http.StatusOK, status, "%s", b)
	var problem api.Problem
	require.NoError(p.c.t, json.Unmarshal(b, &problem), "%s", b)
	require.NotEmpty(p.c.t, problem.Hint, "%s", problem.Detail)
	return problem
}

// signed returns an assertion for a ceremony.
func (p *person) signed(c ceremony) jsontext.Value {
	p.c.t.Helper()
	return encoded(p.c.t, p.device.Sign(p.c.t, must.Get(base64.RawURLEncoding.DecodeString(c.Challenge))(p.c.t)))
}

func encoded(t testing.TB, a passkey.Assertion) jsontext.Value { return must.Get(a.Encode())(t) }

// begin asks for a challenge to sign in, and signs it.
func (p *person) begin() signInIn {
	p.c.t.Helper()
	c := asked[ceremony](p, "/sign-in/challenge", struct{}{})
	return signInIn{Message: c.Message, Assertion: p.signed(c), To: "/g/pve1/r/j1.1"}
}

func (p *person) signIn() {
	p.c.t.Helper()
	require.Equal(p.c.t, "/g/pve1/r/j1.1", asked[next](p, "/sign-in", p.begin()).To)
}

// payloadOf returns the digest that the page of a request shows.
func (c *console) payloadOf(id string) string {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return op.SHA256(c.gate.payloads[id])
}

// seenOf returns the digest of what that page shows.
func (c *console) seenOf(id string) string {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	b := c.gate.payloads[id]
	p, _ := op.DecodePayload(b) // some tests have nonsense there
	return question.Question{Request: *c.gate.requests[id], Bytes: b, Payload: p}.Seen()
}

// decided asks for the bytes of a decision, and signs them.
func (p *person) decided(id, decision, reason string) decidedIn {
	p.c.t.Helper()
	in := decisionIn{Decision: decision, Role: op.Operational, Payload: p.c.payloadOf(id), Seen: p.c.seenOf(id), Reason: reason}
	c := asked[ceremony](p, "/g/pve1/r/"+id+"/challenge", in)
	return decidedIn{Role: in.Role, Payload: in.Payload, Seen: in.Seen, Message: c.Message, Assertion: p.signed(c)}
}
