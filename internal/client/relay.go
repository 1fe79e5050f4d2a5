package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// lingerTime is how long the daemon may go on to answer a caller who has said
// everything.
const lingerTime = time.Minute

// Relay connects to the gate that the options name as every client does, and
// copies in to it and what it answers to out. When in ends the gate is told, and
// has a minute to end its answer; when the gate ends, so does Relay, whatever
// in does. It is the other half of Options.Remote. Errors are *Unreachable,
// those of New, ctx's, and what out returns.
func Relay(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	o.Token, o.ReadToken = "", nil // what is passed on says itself who calls
	c, err := New(o)
	if err != nil {
		return err
	}
	conn, err := c.dialUnix(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is on its way any more
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		// A gate that is gone is noticed by whoever reads from it.
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
