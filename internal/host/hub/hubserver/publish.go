package hubserver

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
)

// publishTries is how often Publish looks at a host whose files are being written.
const publishTries = 5

// Publish reads each host of a directory as a hub over it would serve it, and calls put with both documents, then told with
// what became of it. An error of told ends it. now is the clock against which files' times are compared.
func Publish(ctx context.Context, dir string, now func() time.Time,
	put func(ctx context.Context, host string, desired, operations hubstate.Document) (changed bool, err error),
	told func(host string, changed bool, err error) error) error {
	s, root, err := openSite(dir, now)
	if err != nil {
		return err
	}
	defer root.Close()
	hosts, err := s.Hosts(ctx, "", maxHosts)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		desired, operations, err := s.both(ctx, host)
		changed := false
		if err == nil {
			changed, err = put(ctx, host, desired, operations)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := told(host, changed, err); err != nil {
			return err
		}
	}
	return nil
}

// both reads the documents of a host, once they have rested.
func (s *site) both(ctx context.Context, host string) (desired, operations hubstate.Document, err error) {
	for try := 0; ; try++ {
		if desired, err = s.Document(ctx, host, hub.PathDesired, ""); err == nil {
			operations, err = s.Document(ctx, host, hub.PathOperations, "")
		}
		if !errors.Is(err, refusal.Unavailable) || try == publishTries {
			return desired, operations, err
		}
		rest := time.NewTimer(settle)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return desired, operations, ctx.Err()
		}
	}
}
