package authz_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// examplePayload is what the tests from outside sign; it is valid for an hour
// from noon.
var examplePayload = op.Payload{
	Gate: "00112233445566778899aabbccddeeff", Host: "pve1", Op: "guest.restore",
	Target:      op.Target{Kind: "guest", Name: "web-1"},
	Incarnation: "7b0f9c6e-3a86-4d8e-9f39-0f5a3c1f0d11:1234:5678",
	State:       op.FingerprintOf([]byte("state")),
	Params:      op.Params{"snapshot": "before-upgrade"},
	Nonce:       "AAECAwQFBgcICQoLDA0ODw",
	IssuedAt:    noon, ExpiresAt: noon.Add(time.Hour),
	Reason: "the upgrade went wrong",
}

func payloadOf(t require.TestingT) []byte { return must.Get(examplePayload.Encode())(t) }
