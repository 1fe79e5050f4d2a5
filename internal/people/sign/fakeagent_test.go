package sign

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// fakeAgent holds minted keys and answers as an agent does, unless a test
// replaces an answer.
type fakeAgent struct {
	keys   []mint.Key
	certs  [][]byte                        // blobs; each of the first key
	listed func(reply []byte) []byte       // changes the answer to a list
	signed func(reply []byte) []byte       // changes the answer to a signing
	lies   func(sig *ssh.Signature) []byte // encodes a signature
	asked  atomic.Uint32                   // the flags of the last signing
}

func encode(sig *ssh.Signature) []byte { return ssh.Marshal(sig) }

func (a *fakeAgent) list() []byte {
	reply := append([]byte{msgIdentities}, mint.Uint32(uint32(len(a.keys)+len(a.certs)))...)
	for _, c := range a.certs {
		reply = append(reply, mint.Strings(c, []byte("certificate"))...)
	}
	for _, k := range a.keys {
		reply = append(reply, mint.Strings(k.Blob(), []byte(k.Name))...)
	}
	return reply
}

func (a *fakeAgent) sign(request []byte) []byte {
	var r struct {
		Blob, Data []byte
		Flags      uint32
	}
	if err := ssh.Unmarshal(request, &r); err != nil {
		return []byte{msgFailure}
	}
	a.asked.Store(r.Flags)
	for i, k := range a.keys {
		held := string(k.Blob()) == string(r.Blob)
		for _, c := range a.certs {
			held = held || i == 0 && string(c) == string(r.Blob)
		}
		if !held {
			continue
		}
		sig, err := k.Sign(nil, r.Data)
		if err != nil {
			return []byte{msgFailure}
		}
		lies := a.lies
		if lies == nil {
			lies = encode
		}
		return append([]byte{msgSigned}, mint.String(lies(sig))...)
	}
	return []byte{msgFailure}
}

func (a *fakeAgent) answer(message []byte) []byte {
	switch {
	case message[0] == msgListIdentities && a.listed != nil:
		return a.listed(a.list())
	case message[0] == msgListIdentities:
		return a.list()
	case message[0] == msgSign && a.signed != nil:
		return a.signed(a.sign(message[1:]))
	case message[0] == msgSign:
		return a.sign(message[1:])
	default:
		return []byte{msgFailure}
	}
}

// talk answers until the other side hangs up. Nil as an answer is silence.
func (a *fakeAgent) talk(c net.Conn) {
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, message); err != nil {
			return
		}
		if reply := a.answer(message); reply != nil {
			_, _ = c.Write(mint.String(reply))
		}
	}
}

func (a *fakeAgent) socket(t *testing.T) string { return serve(t, a.talk) }

func TestSecurityKeyInAnAgent(t *testing.T) {
	t.Parallel()
	for _, key := range []mint.Key{mint.SKEd25519(t, "sk", mint.Touched), mint.SKECDSA(t, "sk", mint.Touched)} {
		socket := (&fakeAgent{keys: []mint.Key{key}}).socket(t)
		s := must.Get(Agent(t.Context(), socket, key.Fingerprint()))(t)
		require.True(t, s.SecurityKey())
		armored := must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
		require.NoError(t, opensshVerifies(t, s.PublicKey(), op.Operational, payload(t), armored))
		require.Equal(t, mint.Sign(t, key, op.Operational.Namespace(), payload(t)).Armored(), armored)

		ca, dir := mint.Ed25519(t, "ca"), t.TempDir()
		cert := must.Get(ReadCertificate(mint.Certify(ca, key, "alice@example.com").WriteFile(t, dir)))(t)
		s = must.Get(AgentCertified(t.Context(), socket, cert))(t)
		require.True(t, s.SecurityKey())
		armored = must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
		require.NoError(t, authorityVerifies(t, ca.WriteFile(t, dir)+".pub", "alice@example.com", payload(t), armored))
	}
}

func TestSecurityKeyThatNobodyTouched(t *testing.T) {
	t.Parallel()
	key := mint.SKEd25519(t, "sk", mint.Authenticator{Application: mint.Application, Counter: 1})
	s := must.Get(Agent(t.Context(), (&fakeAgent{keys: []mint.Key{key}}).socket(t), ""))(t)
	_, err := s.Sign(t.Context(), op.Operational, payload(t))
	refused(t, err, refusal.TouchRequired, "without a touch")
}

func TestAgentIsAskedForSHA512(t *testing.T) {
	t.Parallel()
	a := &fakeAgent{keys: []mint.Key{mint.RSA(t, "rsa", 3072)}}
	s := must.Get(Agent(t.Context(), a.socket(t), ""))(t)
	must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
	require.EqualValues(t, 4, a.asked.Load(), "SSH_AGENT_RSA_SHA2_512")
}

func TestAgentThatLeavesOutZeros(t *testing.T) {
	t.Parallel()
	key := mint.RSA(t, "rsa", 3072)
	short := 0
	a := &fakeAgent{keys: []mint.Key{key}, lies: func(sig *ssh.Signature) []byte {
		for sig.Blob[0] == 0 {
			sig.Blob, short = sig.Blob[1:], short+1
		}
		return encode(sig)
	}}
	s := must.Get(Agent(t.Context(), a.socket(t), ""))(t)
	for i := 0; short == 0; i++ { // one signature in 256
		require.Less(t, i, 10_000)
		p := must.Get(op.DecodePayload(payload(t)))(t)
		p.Reason = strings.Repeat("x", i)
		b := must.Get(p.Encode())(t)
		armored := must.Get(s.Sign(t.Context(), op.Operational, b))(t)
		if short > 0 {
			require.Equal(t, mint.Sign(t, key, op.Operational.Namespace(), b).Armored(), armored)
		}
	}
}

// What an agent may say of a signature and no gate takes.
func TestAgentThatLies(t *testing.T) {
	t.Parallel()
	for _, key := range []mint.Key{mint.Ed25519(t, "ed"), mint.ECDSA(t, "ec", 256), mint.RSA(t, "rsa", 3072),
		mint.SKEd25519(t, "sk", mint.Touched), mint.SKECDSA(t, "sk", mint.Touched)} {
		for what, lies := range map[string]func(*ssh.Signature) []byte{
			"SHA-1":                 func(s *ssh.Signature) []byte { s.Format = ssh.KeyAlgoRSA; return encode(s) },
			"a certificate's name":  func(s *ssh.Signature) []byte { s.Format = ssh.CertAlgoED25519v01; return encode(s) },
			"webauthn":              func(s *ssh.Signature) []byte { s.Format = "webauthn-" + s.Format; return encode(s) },
			"another bit":           func(s *ssh.Signature) []byte { s.Blob[len(s.Blob)-1] ^= 1; return encode(s) },
			"no signature":          func(s *ssh.Signature) []byte { s.Blob = nil; return encode(s) },
			"a shorter one":         func(s *ssh.Signature) []byte { s.Blob = s.Blob[:len(s.Blob)-1]; return encode(s) },
			"a longer one":          func(s *ssh.Signature) []byte { s.Blob = append([]byte{0}, s.Blob...); return encode(s) },
			"bytes inside":          func(s *ssh.Signature) []byte { s.Blob = append(s.Blob, 0); return encode(s) },
			"bytes after it":        func(s *ssh.Signature) []byte { return append(encode(s), 0) },
			"a counter after it":    func(s *ssh.Signature) []byte { s.Rest = append(s.Rest, 1, 0, 0, 0, 9); return encode(s) },
			"five other bytes":      func(s *ssh.Signature) []byte { s.Rest = []byte{1, 0, 0, 0, 9}; return encode(s) },
			"by another key's hand": func(*ssh.Signature) []byte { s, _ := mint.Ed25519(t, "x").Sign(nil, nil); return encode(s) },
		} {
			s := must.Get(Agent(t.Context(), (&fakeAgent{keys: []mint.Key{key}, lies: lies}).socket(t), ""))(t)
			armored, err := s.Sign(t.Context(), op.Operational, payload(t))
			require.ErrorIs(t, err, refusal.BadSignature, "%s: %s", key.Type(), what)
			require.NotEmpty(t, refusal.As(err).Hint)
			require.Empty(t, armored)
		}
		for what, cut := range map[string]func([]byte) []byte{
			"trailing bytes": func(r []byte) []byte { return append(r, 0) },
			"cut short":      func(r []byte) []byte { return r[:len(r)-1] },
			"no body":        func([]byte) []byte { return []byte{msgSigned} },
			"not decoding":   func([]byte) []byte { return append([]byte{msgSigned}, mint.String("x")...) },
			"another type":   func(r []byte) []byte { r[0] = msgIdentities; return r },
			"no message":     func([]byte) []byte { return []byte{} },
		} {
			s := must.Get(Agent(t.Context(), (&fakeAgent{keys: []mint.Key{key}, signed: cut}).socket(t), ""))(t)
			_, err := s.Sign(t.Context(), op.Operational, payload(t))
			refused(t, err, refusal.Unavailable, "does not answer as an ssh-agent does")
			require.NotEmpty(t, refusal.As(err).Hint, what)
		}
	}
}

// What an agent may say of what it holds.
func TestAgentThatListsNonsense(t *testing.T) {
	t.Parallel()
	key := mint.Ed25519(t, "key")
	for what, listed := range map[string]func([]byte) []byte{
		"trailing bytes":    func(r []byte) []byte { return append(r, 0) },
		"cut short":         func(r []byte) []byte { return r[:len(r)-1] },
		"too many":          func(r []byte) []byte { r[1] = 0xff; return r },
		"too few":           func(r []byte) []byte { r[4] = 0; return r },
		"no number":         func(r []byte) []byte { return r[:3] },
		"another type":      func(r []byte) []byte { r[0] = 99; return r },
		"a signature":       func(r []byte) []byte { r[0] = msgSigned; return r },
		"no message":        func([]byte) []byte { return []byte{} },
		"a large message":   func(r []byte) []byte { return append(r, make([]byte, maxAgentReply)...) },
		"a huge key inside": func(r []byte) []byte { r[5] = 0x7f; return r },
	} {
		_, err := Agent(t.Context(), (&fakeAgent{keys: []mint.Key{key}, listed: listed}).socket(t), "")
		refused(t, err, refusal.Unavailable, "does not answer as an ssh-agent does")
		require.NotEmpty(t, refusal.As(err).Hint, what)
	}
	_, err := Agent(t.Context(), (&fakeAgent{listed: func([]byte) []byte { return []byte{msgFailure} }}).socket(t), "")
	refused(t, err, refusal.Unavailable, "refused")

	// Keys that nobody can use are shown, and do not hide the others.
	odd := append(append([]byte{msgIdentities}, mint.Uint32(4)...), mint.Strings(
		mint.String("ssh-new"), []byte("new"), []byte("x"), []byte("no key"), append(key.Blob(), 0), []byte("longer"),
		key.Blob(), []byte("good"))...)
	socket := (&fakeAgent{keys: []mint.Key{key}, listed: func([]byte) []byte { return odd }}).socket(t)
	s := must.Get(Agent(t.Context(), socket, ""))(t)
	require.Equal(t, key.Fingerprint(), s.Fingerprint())
	held := must.Get(Identities(t.Context(), socket))(t)
	require.Len(t, held, 4)
	require.Equal(t, "ssh-new", held[0].KeyType)
	require.Equal(t, "unknown", held[1].KeyType)
	for _, id := range held[:3] {
		require.NotNil(t, id.Refused)
	}
}

// The deadlines are the package's own where the caller has none. In a bubble
// the clock goes on by itself when everybody waits.
func TestAgentThatHangs(t *testing.T) {
	t.Parallel()
	key := mint.Ed25519(t, "key")
	for _, c := range []struct {
		a     *fakeAgent
		limit time.Duration
	}{
		{&fakeAgent{keys: []mint.Key{key}, listed: func([]byte) []byte { return nil }}, listTimeout},
		{&fakeAgent{keys: []mint.Key{key}, signed: func([]byte) []byte { return nil }}, signTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			socket := agentSocket{path: "/agent", dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go c.a.talk(theirs)
				return ours, nil
			}}
			start := time.Now()
			s, err := socket.signer(t.Context(), "")
			if err == nil {
				_, err = s.Sign(t.Context(), op.Operational, payload(t))
			}
			refused(t, err, refusal.Unavailable, "ssh-agent at /agent did not answer in time")
			require.Equal(t, c.limit, time.Since(start))
		})
	}
}

// A key's fingerprint is its certificate's too: neither stands in for the other.
func TestAgentWithKeyAndCertificate(t *testing.T) {
	t.Parallel()
	ca, key := mint.Ed25519(t, "ca"), mint.Ed25519(t, "key")
	cert := mint.Certify(ca, key, "alice@example.com")
	file := must.Get(ReadCertificate(cert.WriteFile(t, t.TempDir())))(t)
	a := &fakeAgent{keys: []mint.Key{key}, certs: [][]byte{cert.Blob(t)}}
	for _, want := range []string{"", key.Fingerprint()} {
		s := must.Get(Agent(t.Context(), a.socket(t), want))(t)
		require.Equal(t, key.Blob(), s.PublicKey().Marshal())
	}
	s := must.Get(AgentCertified(t.Context(), a.socket(t), file))(t)
	require.Equal(t, cert.Blob(t), s.PublicKey().Marshal())
	armored := must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
	require.Equal(t, mint.SignWith(t, cert, key, op.Operational.Namespace(), payload(t)).Armored(), armored)

	// A renewed certificate works with the agent's old one.
	renewed := cert
	renewed.Serial = 2
	file = must.Get(ReadCertificate(renewed.WriteFile(t, t.TempDir())))(t)
	s = must.Get(AgentCertified(t.Context(), a.socket(t), file))(t)
	require.Equal(t, renewed.Blob(t), s.PublicKey().Marshal())

	other := must.Get(ReadCertificate(mint.Certify(ca, mint.Ed25519(t, "other"), "alice").WriteFile(t, t.TempDir())))(t)
	_, err := AgentCertified(t.Context(), a.socket(t), other)
	refused(t, err, refusal.UnknownSigner, "does not hold the key "+other.Fingerprint)
}
