package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// TestWhatAGateListsOtherwiseIsNotListed: a gate lists the key, and its holder cannot sign with it in that role.
func TestWhatAGateListsOtherwiseIsNotListed(t *testing.T) {
	now := time.Now()
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	add := addition{Signer: pubkey.Signer{Key: "SHA256:k", Name: "carol", Role: op.Operational}}
	for name, c := range map[string]struct {
		change func(*api.Trust, *api.Signer)
		in     bool
		says   string
	}{
		"as it is":        {func(*api.Trust, *api.Signer) {}, true, ""},
		"valid now":       {func(_ *api.Trust, s *api.Signer) { s.ValidAfter, s.ValidBefore = &before, &after }, true, ""},
		"another key":     {func(_ *api.Trust, s *api.Signer) { s.Fingerprint = "SHA256:other" }, false, ""},
		"another role":    {func(_ *api.Trust, s *api.Signer) { s.Roles = []api.Role{op.Recovery} }, false, ""},
		"another person":  {func(_ *api.Trust, s *api.Signer) { s.Principal = "mallory" }, false, "as the key of mallory"},
		"an authority":    {func(_ *api.Trust, s *api.Signer) { s.CA = true }, false, "certificate authority"},
		"not yet valid":   {func(_ *api.Trust, s *api.Signer) { s.ValidAfter = &after }, false, "valid only from"},
		"ended":           {func(_ *api.Trust, s *api.Signer) { s.ValidBefore = &before }, false, "valid only until"},
		"revoked":         {func(l *api.Trust, _ *api.Signer) { l.Revoked = []string{"SHA256:k"} }, false, "revoked"},
		"all are refused": {func(l *api.Trust, _ *api.Signer) { l.Blocked = true }, false, "accepts no signature"},
	} {
		list := api.Trust{Signers: []api.Signer{{Line: 1, Principal: "carol", Fingerprint: "SHA256:k", Roles: []api.Role{op.Operational}}}}
		c.change(&list, &list.Signers[0])
		in, err := listsSigner(list, add, now)
		require.Equal(t, c.in, in, name)
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
	}
}

// TestADoubtIsNotANo: a connection that breaks once the rotation was sent leaves a doubt, or a request that is named, and
// no other address is asked for it again.
func TestADoubtIsNotANo(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		posts := 0
		mux := answersOf(nil, api.Request{})
		mux.HandleFunc("GET /v1/trust", func(w http.ResponseWriter, _ *http.Request) {
			b, err := api.Encode(api.Trust{Epoch: 1})
			if err == nil {
				_, _ = w.Write(b)
			}
		})
		mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, _ *http.Request) {
			posts++
			request := "j2.1"
			b, err := api.Encode(api.Job{ID: "j2", Request: &request})
			if !accepted || err != nil {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(b)
		})
		mux.HandleFunc("GET /v1/requests/j2.1", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		tl := gateOf(t, mux)
		home := t.TempDir()
		tl.Getenv = func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}[name]
		}
		tl.gateTime = time.Minute
		at := client.Address("unix:" + tl.Socket)
		tl.Socket = ""
		a := &added{ways: []client.Address{at, at}}
		ask := func(ctx context.Context, one *tool, cl *client.Client) error {
			return a.ask(ctx, one, cl, addition{Signer: pubkey.Signer{Line: "x", Key: "k", Role: op.Operational}})
		}
		_, a.err = tl.asking(t.Context(), must.Get(tl.Where())(t), a.ways, &a.said, ask)
		require.Equal(t, api.ExitUnreachable, api.Exit(a.err), "%v", a.err)
		require.Equal(t, 1, posts)
		require.Equal(t, !accepted, a.Doubt)
		require.Equal(t, accepted, a.Request == "j2.1")
	}
}
