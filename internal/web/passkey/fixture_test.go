package passkey_test

import (
	"fmt"
	"testing"

	"gated/internal/web/passkey"
	"gated/internal/web/passkey/passkeytest"
)

const (
	namespace = "operational@gated"
	rpID      = "console.example.com"
	origin    = "https://console.example.com"
)

var message = []byte(`{"op":"guest.destroy"}`)

func newDevice(t testing.TB) *passkeytest.Device { return passkeytest.New(t, rpID, origin) }

// keygenVerifies asks the real ssh-keygen.
func keygenVerifies(t *testing.T, key passkey.Key, space, armored string, message []byte) error {
	t.Helper()
	line := fmt.Sprintf("alice@example.com namespaces=%q %s", namespace, key.Line())
	return passkeytest.KeygenVerifies(t, line, "alice@example.com", space, armored, message)
}
