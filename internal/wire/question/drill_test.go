package question

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// TestADrillSaysSoFirst: whatever the gate adds, the first words say that it is a drill, and
// they are those of the signed bytes.
func TestADrillSaysSoFirst(t *testing.T) {
	q := questionOf(t, payload(t, func(p *op.Payload) {
		p.Op, p.Target, p.Params = op.Drill, op.Drilled, op.Params{"as": "guest.destroy", "target": "guest/db-1"}
	}))
	q.Request.Facts = []op.Fact{{Name: "rehearses", Text: "guest.destroy of guest/db-1"}, {Name: "sign", Text: "can be undone until 2026-01-06T03:04:05Z"}}
	require.Equal(t, "DRILL: nothing will be changed; sign drill/signatures on pve1 - rehearses guest.destroy of guest/db-1", q.Headline(" - "))
	require.False(t, q.Irreversible())
	text := q.Text(View{Dash: " - ", Now: time.Now()})
	require.True(t, strings.HasPrefix(text, "DRILL: nothing will be changed"), text)
	require.Contains(t, text, "what is rehearsed, and nothing is lost, as the gate saw it")
	require.NotContains(t, text, CannotUndo)

	// A gate that describes a destroy as a drill does not change the headline of the bytes.
	lie := questionOf(t, payload(t, func(*op.Payload) {}))
	lie.Request.Op, lie.Request.Params = op.Drill, op.Params{"as": "guest.destroy"}
	require.Equal(t, "DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE", lie.Headline(" - "))
}

// TestAReviewLosesNothing: nobody types the name of the incidents, as if they went.
func TestAReviewLosesNothing(t *testing.T) {
	q := questionOf(t, payload(t, func(p *op.Payload) { p.Op, p.Target, p.Params = op.Review, op.Incidents, op.Params{} }))
	require.False(t, q.Irreversible())
	require.Equal(t, "CLOSE AFTER A LOOK: incident/open on pve1 - "+losesNothing, q.Headline(" - "))
}
