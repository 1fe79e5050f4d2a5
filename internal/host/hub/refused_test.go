package hub_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/test/mint"
)

// TestAListThatAlternates makes nothing new again that was refused.
func TestAListThatAlternates(t *testing.T) {
	w := relayWorld(t)
	stranger := w.signed(w.payload("guest.destroy", "a"), mint.Ed25519(t, "mallory"))
	for i := range 20 {
		w.place.relay(garbage(2*(i%2)), garbage(2*(i%2)+1))
		w.round()
		w.pass(2 * time.Minute) // so that none goes uncounted
	}
	require.Equal(t, 4, w.refusals())
	require.Equal(t, 2, w.link.Status().Refused)

	n := w.refusals()
	for i := range 40 {
		if i%2 == 0 {
			w.place.relay(stranger)
		} else {
			w.place.relay()
		}
		w.round()
		w.pass(30 * time.Second)
	}
	require.Equal(t, 5, w.refusals()-n, "signers change: after 0, 1, 3, 7 and 15 minutes")
}

// TestWhatIsRefusedMayBeTakenLater, if the reason is gone, and the hub takes
// it out and puts it in again.
func TestWhatIsRefusedMayBeTakenLater(t *testing.T) {
	w := relayWorld(t)
	e := w.signed(w.payload("guest.destroy", "c"), w.alice)
	w.place.relay(e)
	w.round()
	require.Equal(t, refusal.UnknownTarget, w.operation().Code)
	w.place.relay()
	w.round()
	w.place.relay(e)
	w.round()
	require.Equal(t, 1, w.refusals(), "not at once")
	require.Equal(t, refusal.UnknownTarget, w.operation().Code, "and it is reported as it was")
	require.Equal(t, 1, w.link.Status().Untried)
	w.pass(time.Minute)
	w.round()
	require.Equal(t, 2, w.refusals())
	require.Zero(t, w.link.Status().Untried)
}

// TestHowManyAreRemembered: as many as a list may have, the last ones.
func TestHowManyAreRemembered(t *testing.T) {
	w := relayWorld(t)
	first := garbage(0)
	w.place.relay(first)
	w.round()
	list := make([]api.Envelope, hub.MaxOperations)
	for i := range list {
		list[i] = garbage(i + 1)
	}
	w.link.Remember(list)
	w.pass(2 * time.Minute)
	w.place.relay(list[0], list[len(list)-1])
	w.round()
	require.Equal(t, 1, w.refusals(), "they are known")
	w.place.relay()
	w.round()
	w.link.Remember([]api.Envelope{garbage(-1)})
	require.Equal(t, hub.MaxOperations, w.link.Remembered())
}
