package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// lingerTime is how long the daemon may still answer after the caller has ended its input.
const lingerTime = time.Minute

// Relay connects to the gate of the options as every client does. It copies in to the gate, and the gate's answers to
// out. When in ends, the gate has a minute to end its answer. When the gate ends, Relay ends, whatever in does. It is
// the other half of Options.Remote. Errors are *Unreachable, those of New, ctx's, and those of out.
func Relay(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	o.Token, o.ReadToken = "", nil // the relayed requests have the caller's own token
	c, err := New(o)
	if err != nil {
		return err
	}
	conn, err := c.dialUnix(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is under way any more
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		// The copy back notices that a gate is gone.
		_, _ = io.Copy(conn, in)
		_ = conn.CloseWrite()
		time.AfterFunc(lingerTime, func() { _ = conn.Close() })
	}()
	_, err = io.Copy(out, conn)
	var broke *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &broke):
		return c.broken(ctx, err)
	case err != nil:
		return fmt.Errorf("pass on what the gate answered: %w", err)
	}
	return nil
}
