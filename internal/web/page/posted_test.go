package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// FuzzPosted checks that what is accepted is written as the same again, and that each
// refusal says what to do.
func FuzzPosted(f *testing.F) {
	f.Add([]byte(`{"role":"operational","seen":"00","message":"AAAA","assertion":{}}`))
	f.Add([]byte(`{"role":"operational","seen":"00","message":"AAAA","assertion":{"id":1,"id":2}}`))
	f.Add([]byte(`{"message":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var in decidedIn
		if err := decodePosted(b, &in); err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			require.NotEmpty(t, refusal.As(err).Hint)
			return
		}
		if in.Assertion == nil {
			in.Assertion = []byte("{}") // an absent member is written as null, which is refused
		}
		var again decidedIn
		require.NoError(t, decodePosted(must.Get(json.Marshal(in))(t), &again))
		require.Equal(t, in.Message, again.Message)
		require.Equal(t, in.Role, again.Role)
	})
}

func TestPostedIsBounded(t *testing.T) {
	t.Parallel()
	body := `{"message":"` + strings.Repeat("x", maxPosted) + `"}`
	var in decidedIn
	err := posted(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), &in)
	require.ErrorIs(t, err, refusal.Oversized)
	most := `{"message":"` + strings.Repeat("x", maxPosted-len(`{"message":""}`)) + `"}`
	require.NoError(t, posted(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(most)), &in))
}
