package hub_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/host/hub"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

// anyAnswer draws a status, headers and a body: bytes, or a good document with
// some of its bytes changed, cut off or repeated.
func anyAnswer(t *rapid.T, good string) http.HandlerFunc {
	code := rapid.SampledFrom([]int{200, 200, 200, 204, 301, 304, 404, 429, 500}).Draw(t, "status")
	kind := rapid.SampledFrom([]string{jsonType, jsonType, "application/json; charset=utf-8", "text/html", ""}).Draw(t, "type")
	tag := rapid.SampledFrom([]string{"", `"x"`, "junk"}).Draw(t, "etag")
	body := []byte(good)
	switch rapid.IntRange(0, 4).Draw(t, "sort") {
	case 0:
		body = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
	case 1:
		body = body[:rapid.IntRange(0, len(body)).Draw(t, "cut")]
	case 2:
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			body[rapid.IntRange(0, len(body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
	case 3:
		body = append(body, rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "more")...)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("ETag", tag)
		w.WriteHeader(code)
		if code != http.StatusNoContent && code != http.StatusNotModified {
			_, _ = w.Write(body)
		}
	}
}

// TestWhateverAHubAnswers: a document is planned from only if it is whole and
// valid, so that what is wished to be absent stands in it as such.
func TestWhateverAHubAnswers(t *testing.T) {
	good := document("r1", map[string]string{"site": doc("[{name: a, state: absent}, {name: b, state: running}]")})
	var handler http.HandlerFunc
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r) }))
	defer s.Close()
	rapid.Check(t, func(t *rapid.T) {
		l := poller(s.URL)
		var had bool
		for range rapid.IntRange(1, 4).Draw(t, "polls") {
			var code int
			var sent []byte
			inner := anyAnswer(t, good)
			handler = func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				inner(rec, r)
				code, sent = rec.Code, rec.Body.Bytes()
				inner(w, r)
			}
			l.Poll(t.Context())
			docs, err := l.Read(t.Context())
			if err != nil {
				require.Empty(t, docs, "an error brings no wish")
				continue
			}
			switch code {
			case http.StatusNotModified:
				require.True(t, had, "nothing is as it was before it was read")
				continue
			case http.StatusOK:
			default:
				t.Fatalf("taken with status %d", code)
			}
			had = true
			d := must.Get(hub.DecodeDesired(sent, testHost))(t)
			require.Len(t, docs, len(d.Sets))
			for _, got := range docs {
				require.Equal(t, must.Get(desired.Parse(got.Set, []byte(d.Sets[got.Set])))(t), got.Doc)
				require.Equal(t, testHost, got.Doc.Host)
			}
		}
	})
}

// TestWhateverAHubRelays: of an envelope, no byte of the payload can be another.
func TestWhateverAHubRelays(t *testing.T) {
	w := relayWorld(t)
	valid := w.signed(w.payload("guest.destroy", "a"), w.alice)
	random := rand.New(rand.NewPCG(1, 2))
	flip := func(s string) string {
		b := []byte(s)
		for same := true; same; {
			i := random.IntN(len(b))
			c := byte(random.IntN(128))
			same = b[i] == c
			b[i] = c
		}
		return string(b)
	}
	for i := range 100 {
		e := valid
		e.Signatures = append([]string(nil), valid.Signatures...)
		if i%2 == 0 {
			e.Payload = flip(e.Payload)
		} else {
			e.Signatures[0] = flip(e.Signatures[0])
		}
		w.place.relay(e)
		if i%3 == 0 {
			w.place.on(hub.PathOperations, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", jsonType)
				_, _ = io.WriteString(rw, flip(`{"host":"pve1","operations":[{"payload":"`+valid.Payload+`","signatures":[]}]}`))
			})
		}
		w.round()
		if n := w.jobs(); n != 0 {
			// Armor can have bits that mean nothing: then it is the same signature, of
			// the same payload.
			require.Equal(t, valid.Payload, e.Payload, "an altered payload was taken")
			return
		}
	}
	require.True(t, w.has("a"))
	require.Zero(t, w.jobs())
}
