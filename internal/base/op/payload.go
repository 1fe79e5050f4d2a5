package op

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// The type members of the two kinds of signed payload.
const (
	TypeSignedOp  = "gated/signed-op/v1"
	TypeRejection = "gated/rejection/v1"
)

// The members of the two kinds, sorted by their bytes (RFC 8785, 3.2.3).
var (
	approvalMembers = []string{"expires_at", "gate", "host", "incarnation", "issued_at", "nonce", "op", "params", "reason",
		"state", "target", "type"}
	rejectionMembers = []string{"expires_at", "gate", "host", "issued_at", "nonce", "payload_sha256", "reason", "request",
		"type"}
)

// timeLayout is RFC 3339 in UTC with whole seconds.
const timeLayout = "2006-01-02T15:04:05Z"

// Payload is what an operator signs to approve one step (protocol section 1).
type Payload struct {
	Gate        GateID
	Host        string
	Op          string
	Target      Target
	Incarnation Incarnation
	State       Fingerprint
	Params      Params
	Nonce       string
	IssuedAt    time.Time // whole seconds, UTC
	ExpiresAt   time.Time // whole seconds, UTC
	Reason      string
}

// Rejection is what an operator signs to refuse a request.
type Rejection struct {
	Gate          GateID
	Host          string
	Request       RequestID
	PayloadSHA256 string // 64 lower-case hex digits, the digest of the request's payload
	Nonce         string // a fresh nonce, chosen by the signer
	IssuedAt      time.Time
	ExpiresAt     time.Time
	Reason        string
}

// SHA256 returns the lower-case hex digest of payload bytes.
func SHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Encode returns the canonical bytes (RFC 8785). It refuses what DecodePayload
// would refuse.
func (p Payload) Encode() ([]byte, error) {
	b, err := encodeObject([]member{ // in the order of RFC 8785, 3.2.3
		{"expires_at", p.ExpiresAt.UTC().Format(timeLayout)},
		{"gate", string(p.Gate)},
		{"host", p.Host},
		{"incarnation", string(p.Incarnation)},
		{"issued_at", p.IssuedAt.UTC().Format(timeLayout)},
		{"nonce", p.Nonce},
		{"op", p.Op},
		{"params", p.Params},
		{"reason", p.Reason},
		{"state", string(p.State)},
		{"target", p.Target.String()},
		{"type", TypeSignedOp},
	})
	if err != nil {
		return nil, err
	}
	_, err = DecodePayload(b)
	return b, err
}

// DecodePayload decodes the bytes of an approval once and strictly. Bytes are
// Malformed if they are not the canonical form of exactly the members of protocol
// section 1. Too many bytes are Oversized.
func DecodePayload(b []byte) (Payload, error) {
	f, err := openObject(b, TypeSignedOp, approvalMembers)
	if err != nil {
		return Payload{}, err
	}
	p := Payload{
		Gate:        f.gate(),
		Host:        f.text("host", 1, 253),
		Op:          f.text("op", 3, 64),
		Incarnation: Incarnation(f.text("incarnation", 0, 512)),
		State:       Fingerprint(f.text("state", 71, 71)),
		Nonce:       f.nonce(),
		IssuedAt:    f.time("issued_at"),
		ExpiresAt:   f.time("expires_at"),
		Reason:      f.text("reason", 0, MaxReason),
	}
	f.try(p.Target.UnmarshalText([]byte(f.text("target", 3, 256))))
	p.Params, err = ParseParams(f.members["params"])
	f.try(err)
	f.check(p.State.Valid(), "state is not sha256: and 64 hex digits")
	f.check(p.ExpiresAt.After(p.IssuedAt), "expires_at is not after issued_at")
	return p, f.err
}

// OriginOf reads the gate and the host of a payload. The bytes were decoded before,
// so it reads no other member.
func OriginOf(payload []byte) (g GateID, host string, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(payload))
	if _, err := d.ReadToken(); err != nil {
		return "", "", refusal.New(refusal.Malformed, "the payload: %v", err)
	}
	for g == "" || host == "" {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return "", "", refusal.New(refusal.Malformed, "the payload names no gate and host")
		}
		to := new(string)
		switch name.String() {
		case "gate":
			to = (*string)(&g)
		case "host":
			to = &host
		}
		v, err := d.ReadValue()
		if err != nil {
			return "", "", refusal.New(refusal.Malformed, "the payload: %v", err)
		}
		if v.Kind() == '"' {
			text, err := jsontext.AppendUnquote(nil, v)
			if err != nil {
				return "", "", refusal.New(refusal.Malformed, "the payload: %v", err)
			}
			*to = string(text)
		}
	}
	return g, host, nil
}

// Encode returns the canonical bytes (RFC 8785).
func (r Rejection) Encode() ([]byte, error) {
	b, err := encodeObject([]member{
		{"expires_at", r.ExpiresAt.UTC().Format(timeLayout)},
		{"gate", string(r.Gate)},
		{"host", r.Host},
		{"issued_at", r.IssuedAt.UTC().Format(timeLayout)},
		{"nonce", r.Nonce},
		{"payload_sha256", r.PayloadSHA256},
		{"reason", r.Reason},
		{"request", r.Request.String()},
		{"type", TypeRejection},
	})
	if err != nil {
		return nil, err
	}
	_, err = DecodeRejection(b)
	return b, err
}

// DecodeRejection decodes the bytes of a rejection as strictly as DecodePayload
// does.
func DecodeRejection(b []byte) (Rejection, error) {
	f, err := openObject(b, TypeRejection, rejectionMembers)
	if err != nil {
		return Rejection{}, err
	}
	r := Rejection{
		Gate:          f.gate(),
		Host:          f.text("host", 1, 253),
		PayloadSHA256: f.text("payload_sha256", 64, 64),
		Nonce:         f.nonce(),
		IssuedAt:      f.time("issued_at"),
		ExpiresAt:     f.time("expires_at"),
		Reason:        f.text("reason", 0, MaxReason),
	}
	f.try(r.Request.UnmarshalText([]byte(f.text("request", 4, 64))))
	f.check(isHex(r.PayloadSHA256, 64), "payload_sha256 is not 64 lower-case hex digits")
	f.check(r.ExpiresAt.After(r.IssuedAt), "expires_at is not after issued_at")
	return r, f.err
}

type member struct {
	name  string
	value any // string, int or Params
}

func encodeObject(members []member) ([]byte, error) {
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, m.name) // names are plain ASCII
		b = append(b, ':')
		switch v := m.value.(type) {
		case Params:
			b = append(b, v.Canonical()...)
		case int:
			b = strconv.AppendInt(b, int64(v), 10)
		case string:
			q, err := jsontext.AppendQuote(b, v)
			if err != nil {
				return nil, refusal.New(refusal.Malformed, "%s is not valid UTF-8", m.name)
			}
			b = q
		}
	}
	return append(b, '}'), nil
}

// fields is an opened payload object. The first error stays in err.
type fields struct {
	members map[string]jsontext.Value
	err     error
}

// openObject checks what both payloads have in common: the size, the canonical form,
// exactly the named members, and no null.
func openObject(b []byte, typ string, names []string) (*fields, error) {
	if len(b) > MaxPayload {
		return nil, refusal.New(refusal.Oversized, "the payload has %d bytes, more than %d", len(b), MaxPayload).
			At(refusal.StageDecode)
	}
	members := plainMembers(b, names)
	if members == nil {
		var err error
		if members, err = parsedMembers(b); err != nil {
			return nil, err
		}
	}
	f := &fields{members: members}
	for _, name := range names {
		v, ok := members[name]
		f.check(ok, "the member "+name+" is missing")
		f.check(!ok || v.Kind() != 'n', "the member "+name+" is null")
	}
	f.check(len(members) == len(names), "there is a member that does not belong")
	f.check(f.text("type", 1, 64) == typ, "type is not "+typ)
	return f, f.err
}

// parsedMembers reads the members of an object in canonical form (RFC 8785).
func parsedMembers(b []byte) (map[string]jsontext.Value, error) {
	canonical := jsontext.Value(bytes.Clone(b))
	if err := canonical.Canonicalize(); err != nil {
		return nil, refusal.New(refusal.Malformed, "the payload is not one strict JSON value: %v", err).
			At(refusal.StageDecode)
	}
	if !bytes.Equal(canonical, b) {
		return nil, refusal.New(refusal.Malformed, "the payload is not in canonical form (RFC 8785)").At(refusal.StageDecode).
			WithHint("sign the bytes that opsign show --payload prints, without a newline at the end")
	}
	members := map[string]jsontext.Value{}
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, refusal.New(refusal.Malformed, "the payload is not an object").At(refusal.StageDecode)
	}
	for d.PeekKind() == '"' {
		tok, err := d.ReadToken()
		if err != nil {
			return nil, refusal.New(refusal.Malformed, "the payload: %v", err).At(refusal.StageDecode)
		}
		name := tok.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, refusal.New(refusal.Malformed, "the payload: %v", err).At(refusal.StageDecode)
		}
		members[name] = v.Clone()
	}
	return members, nil
}

func (f *fields) try(err error) {
	if f.err == nil && err != nil {
		f.err = refusal.As(err).At(refusal.StageDecode)
	}
}

func (f *fields) check(ok bool, what string) {
	if !ok {
		f.try(refusal.New(refusal.Malformed, "%s", what))
	}
}

// text returns a string member with at least minBytes and at most maxBytes.
func (f *fields) text(name string, minBytes, maxBytes int) string {
	raw := f.members[name]
	if raw.Kind() != '"' {
		f.check(false, name+" is not a string")
		return ""
	}
	var s string
	if plainString(raw) == len(raw) {
		s = string(raw[1 : len(raw)-1])
	} else {
		b, err := jsontext.AppendUnquote(nil, raw)
		f.try(err)
		s = string(b)
	}
	f.try(CheckText(name, s))
	f.check(len(s) >= minBytes && len(s) <= maxBytes,
		name+" has "+strconv.Itoa(len(s))+" bytes, not "+strconv.Itoa(minBytes)+" to "+strconv.Itoa(maxBytes))
	return s
}

func (f *fields) gate() GateID {
	g := GateID(f.text("gate", 32, 32))
	f.check(g.Valid(), "gate is not 32 lower-case hex digits")
	return g
}

func (f *fields) nonce() string {
	s := f.text("nonce", 1, 64)
	f.try(CheckNonce(s))
	return s
}

func (f *fields) time(name string) time.Time {
	s := f.text(name, len(timeLayout), len(timeLayout))
	t, err := time.Parse(timeLayout, s)
	f.check(err == nil && t.Format(timeLayout) == s, name+" is not RFC 3339 in UTC with whole seconds and a Z")
	return t
}

// NewNonce returns a fresh nonce of 24 bytes. The first six are at, in milliseconds since 1970, big-endian. So nonces of
// the same time are neighbours in the gate's database, and a group of decisions writes few pages. The other 18 bytes
// are random (crypto/rand).
func NewNonce(at time.Time) string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails: the program would end first
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16|uint64(b[6])<<8|uint64(b[7]))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// CheckNonce refuses, as Malformed, text that is not base64url without padding (RFC
// 4648, 5) of 16 to 32 bytes. Only one spelling is accepted.
func CheckNonce(s string) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") || len(b) < 16 || len(b) > 32 {
		return refusal.New(refusal.Malformed, "the nonce is not unpadded base64url of 16 to 32 bytes").At(refusal.StageDecode)
	}
	return nil
}
