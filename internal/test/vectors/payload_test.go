package vectors

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

const (
	gateID = op.GateID("0123456789abcdef0123456789abcdef")
	host   = "pve1"
)

// noon is when everything here is issued.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// payloadCase is bytes that a person may sign.
type payloadCase struct {
	Name `json:"name"`
	Form string `json:"form"` // approval, rejection or batch
	content
	Outcome
}

func (c *payloadCase) read(t *testing.T) (any, error) {
	t.Helper()
	switch c.Form {
	case "approval":
		p, err := op.DecodePayload(c.bytes())
		if err != nil {
			return nil, err
		}
		return approvalSaid(t, p), nil
	case "rejection":
		p, err := op.DecodeRejection(c.bytes())
		if err != nil {
			return nil, err
		}
		return map[string]any{"type": op.TypeRejection, "gate": p.Gate, "host": p.Host, "request": p.Request.String(), "payload_sha256": p.PayloadSHA256,
			"nonce": p.Nonce, "issued_at": p.IssuedAt, "expires_at": p.ExpiresAt, "reason": p.Reason}, nil
	case "batch":
		p, err := op.DecodeBatch(c.bytes())
		if err != nil {
			return nil, err
		}
		return map[string]any{"type": op.TypeBatch, "count": p.Count, "root": p.Root.String(), "role": p.Role, "issued_at": p.IssuedAt, "expires_at": p.ExpiresAt}, nil
	}
	require.Fail(t, "no such form", c.Form)
	return nil, nil
}

func approvalSaid(t *testing.T, p op.Payload) map[string]any {
	t.Helper()
	return map[string]any{"type": op.TypeSignedOp, "gate": p.Gate, "host": p.Host, "op": p.Op, "target": p.Target.String(), "incarnation": p.Incarnation,
		"state": p.State, "params": p.Params, "nonce": p.Nonce, "issued_at": p.IssuedAt, "expires_at": p.ExpiresAt, "reason": p.Reason}
}

var approval = op.Payload{
	Gate: gateID, Host: host, Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"}, Incarnation: "web-1-x", State: op.FingerprintOf([]byte("state")),
	Params: op.Params{}, Nonce: "AAECAwQFBgcICQoLDA0ODw", IssuedAt: noon, ExpiresAt: noon.Add(time.Hour), Reason: "not needed any more",
}

func encoded(t testing.TB, p interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	return must.Get(p.Encode())(t)
}

// payloads makes the cases of payload.json.
func payloads(t *testing.T) (out []Vector) {
	rich := approval
	rich.Op, rich.Reason = "guest.set-config", "Büro, \"west\"\\"
	rich.Params = must.Get(op.ParseParams([]byte(`{"labels":{"tier":"prod","ä":"\u20ac"},"memory":9007199254740991,"offset":-1,"list":[true,[{}]],"protected":false}`)))(t)
	rejection := op.Rejection{Gate: gateID, Host: host, Request: op.RequestID{Job: 12, Index: 1}, PayloadSHA256: op.SHA256([]byte("payload")),
		Nonce: "EBESExQVFhcYGRobHB0eHw", IssuedAt: noon, ExpiresAt: noon.Add(time.Hour), Reason: "still in use"}
	batch := op.Batch{Role: op.Operational, Count: 3, IssuedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	good := func(n, form string, p interface{ Encode() ([]byte, error) }) {
		c := &payloadCase{Name: Name(n), Form: form, content: contentOf(string(encoded(t, p)))}
		c.Outcome = Outcome{Accepted: jsontext.Value(encoded(t, p))}
		out = append(out, c)
	}
	good("an approval", "approval", approval)
	good("an approval with every kind of parameter", "approval", rich)
	good("a rejection", "rejection", rejection)
	good("a batch", "batch", batch)
	bad := func(n, form string, from interface{ Encode() ([]byte, error) }, old, new, why string) {
		text := string(encoded(t, from))
		require.Contains(t, text, old, n)
		out = append(out, &payloadCase{Name: Name(n), Form: form, content: contentOf(strings.Replace(text, old, new, 1)), Outcome: Refuses(refusal.StageDecode, refusal.Malformed, why)})
	}
	for _, c := range [][4]string{
		{"white space", `{"expires_at":`, `{ "expires_at":`, "white space is not canonical"},
		{"a line end behind it", `v1"}`, "v1\"}\n", "nothing stands behind the object"},
		{"a member twice", `"host":"pve1"`, `"host":"pve1","host":"pve1"`, "a member is there twice"},
		{"members in another order", `"gate":"0123456789abcdef0123456789abcdef","host":"pve1"`, `"host":"pve1","gate":"0123456789abcdef0123456789abcdef"`, "members are sorted"},
		{"a member too many", `"type"`, `"tybe":"x","type"`, "it has exactly the members of its type"},
		{"a member missing", `"reason":"not needed any more",`, ``, "it has exactly the members of its type"},
		{"null", `"incarnation":"web-1-x"`, `"incarnation":null`, "no member is null"},
		{"another type", `signed-op/v1`, `signed-op/v2`, "the type is gated/signed-op/v1"},
		{"an escape that is not the shortest", `"pve1"`, `"\u0070ve1"`, "strings are the shortest"},
		{"no UTF-8", `not needed`, "not\xffneeded", "it is UTF-8"},
		{"half a surrogate pair", `not needed`, `not\ud800needed`, "it is UTF-8"},
		{"a gate id in capitals", `abcdef0123456789abcdef`, `ABCDEF0123456789abcdef`, "hex digits are lower-case"},
		{"a host of 254 bytes", `"pve1"`, `"` + strings.Repeat("h", 254) + `"`, "a host has at most 253 bytes"},
		{"an operation of 65 bytes", `guest.destroy`, strings.Repeat("o", 65), "an operation has at most 64 bytes"},
		{"a target with a slash in its name", `guest/web-1`, `guest/web/1`, "a name has no slash"},
		{"a target's name that begins with a dot", `guest/web-1`, `guest/.web`, "a name begins with a letter or digit"},
		{"an incarnation of 513 bytes", `web-1-x`, strings.Repeat("i", 513), "an incarnation has at most 512 bytes"},
		{"a state without its algorithm", `sha256:`, ``, "a state begins with sha256:"},
		{"a number with a fraction", `"params":{}`, `"params":{"n":1.5}`, "parameters are integers"},
		{"an integer above 2^53-1", `"params":{}`, `"params":{"n":9007199254740992}`, "integers are within 2^53-1"},
		{"minus zero", `"params":{}`, `"params":{"n":-0}`, "integers are plain digits"},
		{"a parameter that is null", `"params":{}`, `"params":{"n":null}`, "no parameter is null"},
		{"parameters five deep", `"params":{}`, `"params":{"a":[[[[]]]]}`, "parameters are at most 4 deep"},
		{"a nonce of 15 bytes", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0O`, "a nonce has 16 to 32 bytes"},
		{"a nonce of 33 bytes", `AAECAwQFBgcICQoLDA0ODw`, strings.Repeat("AAEC", 11), "a nonce has 16 to 32 bytes"},
		{"a nonce in another spelling", `ODw"`, `ODx"`, "a nonce has one spelling"},
		{"a nonce with padding", `ODw"`, `ODw=="`, "a nonce has no padding"},
		{"a time with a fraction", `12:00:00Z`, `12:00:00.0Z`, "times are whole seconds"},
		{"a time with an offset", `12:00:00Z`, `12:00:00+00:00`, "times end with Z"},
		{"a time that does not exist", `2026-03-01T12`, `2026-02-29T12`, "2026 has no 29 February"},
		{"a time with a small t", `2026-03-01T12:00:00Z`, `2026-03-01t12:00:00Z`, "times have a T"},
		{"a month of one digit", `2026-03-01T12`, `2026-3-01T12`, "a month has two digits"},
		{"params that are an array", `"params":{}`, `"params":[]`, "params is an object"},
		{"a line end in a parameter", `"params":{}`, `"params":{"a":"b\nc"}`, "no string has control characters"},
		{"a leap second", `12:00:00Z`, `12:00:60Z`, "a minute has the seconds 0 to 59"},
		{"an end that is its beginning", `T13:00:00Z`, `T12:00:00Z`, "expires_at is later than issued_at"},
		{"a reason of 1,025 bytes", `not needed any more`, strings.Repeat("r", 1025), "a reason has at most 1,024 bytes"},
		{"a line end in the reason", `not needed`, `not\nneeded`, "no string has control characters"},
		{"a right-to-left override in the reason", `not needed`, "not\u202eneeded", "no string has format characters"},
		{"a line separator in a parameter's name", `"params":{}`, "\"params\":{\"a\u2028b\":1}", "no name has line separators"},
	} {
		bad(c[0], "approval", approval, c[1], c[2], c[3])
	}
	bad("an approval as a rejection", "rejection", approval, "guest", "guest", "it is read as what was asked for")
	bad("a rejection as an approval", "approval", rejection, "pve1", "pve1", "it is read as what was asked for")
	bad("a request without its index", "rejection", rejection, "j12.1", "j12", "a request is j12.1")
	bad("a request with a leading zero", "rejection", rejection, "j12.1", "j12.01", "a number has one spelling")
	bad("a digest of 63 digits", "rejection", rejection, `payload_sha256":"2`, `payload_sha256":"`, "a digest has 64 digits")
	bad("a batch of none", "batch", batch, `"count":3`, `"count":0`, "a batch has 1 to 1000 requests")
	bad("a batch of 1,001", "batch", batch, `"count":3`, `"count":1001`, "a batch has 1 to 1000 requests")
	bad("a batch in the role recovery", "batch", batch, `"operational"`, `"recovery"`, "recovery signs no batch")
	bad("a batch in the role breakglass", "batch", batch, `"operational"`, `"breakglass"`, "breakglass signs no batch")
	bad("a batch that ends as it begins", "batch", batch, `T13:00:00Z`, `T12:00:00Z`, "expires_at is later than issued_at")
	bad("a batch of 513 bytes", "batch", batch, `v1"}`, `v1"}`+strings.Repeat(" ", 513-len(encoded(t, batch))), "a batch has at most 512 bytes")
	out[len(out)-1].(*payloadCase).Refused.Code = refusal.Oversized
	out = append(out, &payloadCase{Name: "nothing", Form: "approval", content: contentOf(""), Outcome: Refuses(refusal.StageDecode, refusal.Malformed, "it is an object")})
	bad("a batch with its count as a text", "batch", batch, `"count":3`, `"count":"3"`, "count is an integer")
	return out
}
