package members

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// A connection that showed no certificate is of no member.
func TestAConnectionWithoutACertificateIsOfNoMember(t *testing.T) {
	i := &Identity{Settings: Settings{Now: time.Now}, byID: map[string]string{}}
	for _, s := range []*tls.ConnectionState{nil, {}, {Version: tls.VersionTLS13, HandshakeComplete: true}} {
		_, err := i.Who(s)
		require.ErrorIs(t, err, refusal.NotAllowed)
	}
}
