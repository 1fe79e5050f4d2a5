package sign

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/mint"
)

// pipe is an agent that says the same whatever it is asked.
type pipe struct {
	bytes.Buffer
	asked bytes.Buffer
}

func (p *pipe) Write(b []byte) (int, error) { return p.asked.Write(b) }

// What an agent says is refused, or is exactly what was understood.
func FuzzAgentReply(f *testing.F) {
	keys := &fakeAgent{keys: []mint.Key{mint.Ed25519(f, "a"), mint.SKEd25519(f, "b", mint.Touched)}}
	f.Add(mint.String(keys.list()))
	for _, k := range keys.keys {
		request := append(mint.Strings(k.Blob(), []byte("data")), mint.Uint32(0)...)
		f.Add(mint.String(keys.sign(request)))
	}
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, msgSigned})
	f.Add(mint.String([]byte{msgIdentities, 0xff, 0xff, 0xff, 0xff}))
	f.Fuzz(func(t *testing.T, reply []byte) {
		var said pipe
		said.Buffer.Write(reply)
		held, err := listHeld(&said)
		if err == nil {
			again := append([]byte{msgIdentities}, mint.Uint32(uint32(len(held)))...)
			for _, k := range held {
				again = append(again, mint.Strings(k.Blob, k.Comment)...)
				_ = identify(k.Blob, string(k.Comment)) // whatever it is, it does not panic
			}
			require.Equal(t, reply[:len(reply)-said.Len()], mint.String(again))
		}
		requireKnown(t, err)

		said = pipe{}
		said.Buffer.Write(reply)
		sig, err := signHeld(&said, nil, nil, 0)
		if err == nil {
			require.Equal(t, reply[:len(reply)-said.Len()], mint.String(append([]byte{msgSigned}, mint.String(encode(sig))...)))
		}
		requireKnown(t, err)
	})
}

// requireKnown wants an error to be one that call words.
func requireKnown(t *testing.T, err error) {
	t.Helper()
	var strange odd
	if err != nil && !errors.Is(err, errRefused) {
		require.ErrorAs(t, err, &strange)
	}
}
