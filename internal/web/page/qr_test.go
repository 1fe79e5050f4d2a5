package page

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

func TestQRIsOfTheAddress(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	p := c.listed("alice@example.com", op.Operational)
	status, b := p.get("/g/pve1/r/j1.1/qr.svg")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, must.Get(qrOf(c.origin+"/g/pve1/r/j1.1"))(t), string(b))
	status, _ = p.get("/g/other/r/j1.1/qr.svg")
	require.Equal(t, http.StatusNotFound, status)
	status, b = c.person(c.device()).get("/g/pve1/r/j1.1/qr.svg")
	require.Equal(t, http.StatusOK, status, "sent to /sign-in")
	require.NotContains(t, string(b), "<svg")
}

func TestQRIsXML(t *testing.T) {
	t.Parallel()
	text := must.Get(qrOf(`https://console.example.com/"><script>`))(t)
	require.NotContains(t, text, "script")
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
	_, err := qrOf(strings.Repeat("x", 5000))
	require.Error(t, err, "no code has so much")
}
