package libvirt

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/test/must"
)

// impatience bounds the time that a hung libvirtd costs a test.
const impatience = 100 * time.Millisecond

// away does a look, a list and a check without an answer. Each must end, and none may say that
// there is no guest.
func (b *bed) away() {
	b.t.Helper()
	for range 2 {
		ctx, cancel := context.WithTimeout(b.t.Context(), impatience)
		defer cancel()
		must.Fail(b.d.Observe(ctx, op.At(target("web"))))(b.t, refusal.Unavailable)
		must.Fail(b.d.List(ctx))(b.t, refusal.Unavailable)
		found := b.d.Check(ctx)
		require.NotEmpty(b.t, found)
		last := found[len(found)-1]
		require.Equal(b.t, driver.Bad, last.State)
		require.NotEmpty(b.t, last.Hint)
	}
}

// A libvirtd that hangs, ends and comes back.
func TestAway(t *testing.T) {
	t.Parallel()
	b := &bed{Libvirtd: libvirttest.Start(t), t: t}
	b.d = b.open(Config{})
	b.must("create", "web")
	before := b.look("web")
	thaw := b.Freeze()
	b.away()
	thaw()
	require.Equal(t, before.Fingerprint, b.look("web").Fingerprint)
	b.Stop()
	b.away()
	b.Up()
	require.Equal(t, before.Incarnation, b.look("web").Incarnation)
	require.Equal(t, before.Fingerprint, b.look("web").Fingerprint)
}

// If another program answers at the socket, only that call fails.
func TestNonsense(t *testing.T) {
	reply := func(length uint32, kind, serial byte, rest ...byte) []byte {
		p := []byte{byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length), 0x20, 0, 0x80, 0x86, 0, 0, 0, 1, 0, 0, 0, 66,
			0, 0, 0, kind, 0, 0, 0, serial, 0, 0, 0, 0}
		return append(p, rest...)
	}
	for name, says := range map[string][]byte{
		"nothing":                  nil,
		"text":                     []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a length of nothing":      {0, 0, 0, 0},
		"a length below a header":  {0, 0, 0, 5, 1},
		"a length beyond memory":   {0xff, 0xff, 0xff, 0xff, 0, 0},
		"an answer twice":          append(reply(28, 1, 1), reply(28, 1, 1)...),
		"an answer without a call": reply(28, 1, 99),
		"an event":                 reply(32, 2, 1, 1, 2, 3, 4),
		"a list beyond memory":     reply(32, 1, 1, 0xff, 0xff, 0xff, 0xff),
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			l := must.Get(net.Listen("unix", socket))(t)
			defer func() { require.NoError(t, l.Close()) }()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						_, _ = conn.Write(says)
						_, _ = conn.Read(make([]byte, 1<<16)) // the call
						_, _ = conn.Write(says)
						<-t.Context().Done()
						_ = conn.Close()
					}()
				}
			}()
			b := &bed{t: t, Libvirtd: &libvirttest.Libvirtd{Socket: socket}}
			b.d = b.open(Config{})
			b.away()
		})
	}
	b := &bed{t: t, Libvirtd: &libvirttest.Libvirtd{Socket: filepath.Join(t.TempDir(), "none")}}
	b.d = b.open(Config{})
	b.away()
	found := b.d.Check(t.Context())
	require.Contains(t, found[len(found)-1].Hint, "there is no such socket")
}
