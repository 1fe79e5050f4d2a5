package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
)

func TestWhatWasTakenIsSaid(t *testing.T) {
	said := func(r api.Request) string { return outcomeWords(r, time.Time{}) }
	release := api.Request{Op: op.ReleaseAll, Target: "scope/s3", Job: "j1", State: op.StateSucceeded,
		Facts: []op.Fact{{Name: "path", Text: "/home/alice/repo"}, {Name: "reservations", Text: "3"}, {Name: "r12", Text: "exclusive"}}}
	require.Equal(t, "released every reservation of /home/alice/repo (3)", said(release))
	give := release
	give.Op, give.Params = op.ForceTransfer, op.Params{"reservation": "r12", "to": "tester"}
	require.Equal(t, "gave the reservation r12 in /home/alice/repo to tester", said(give))

	// Facts are for people: without them the target's name does.
	release.Facts, give.Facts = nil, nil
	require.Equal(t, "released every reservation of scope/s3", said(release))
	require.Equal(t, "gave the reservation r12 in scope/s3 to tester", said(give))
	release.Facts = []op.Fact{{Name: "path", Text: "/x\x1b[2J"}}
	require.Equal(t, `released every reservation of "/x\x1b[2J"`, said(release))

	for _, s := range []op.State{op.StateAuthorized, op.StateDispatched} {
		release.State = s
		require.Equal(t, "scope.release-all scope/s3: "+string(s)+", not done yet; gated jobs j1 shows how it goes on", said(release))
	}
	require.Empty(t, taken(api.Request{Op: "guest.destroy", Target: "guest/web-1"}))
}
