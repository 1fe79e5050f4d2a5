package client

import (
	"context"
	"time"

	"gated/client/api"
)

// A wait for which the daemon has no place reads the job instead. The pauses before a read double from placePause to
// placeMost. After placeAgain the wait asks for a place again, because the daemon logs each refusal and each place is
// taken for api.MaxWait at most.
const (
	placePause = 250 * time.Millisecond
	placeMost  = 5 * time.Second
	placeAgain = api.MaxWait * time.Second
)

// placeless paces the reads of a wait without a place.
type placeless struct {
	pause time.Duration // before the next read
	left  time.Duration // until the wait asks for a place again; 0 if it may ask now
}

// begin begins the time in which the wait asks for no place.
func (p *placeless) begin() { p.pause, p.left = max(p.pause, placePause), placeAgain }

// rest returns at once if the wait may ask for a place. Otherwise it returns after the next pause, or with ctx's error.
func (p *placeless) rest(ctx context.Context) error {
	if p.left == 0 {
		return nil
	}
	now := min(p.pause, p.left)
	p.left -= now
	p.pause = min(2*p.pause, placeMost)
	return rest(ctx, now)
}
