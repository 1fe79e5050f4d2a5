package local

import (
	"context"
	"strconv"

	"gated/internal/base/op"
	"gated/internal/base/proc"
)

// markVar is the only environment variable that the driver adds. It finds processes that left
// their session.
const markVar = "GATED_GUEST"

func markOf(inc op.Incarnation) string { return markVar + "=" + string(inc) }

// waitPID waits for the process that has the pid now. Use it only to wait: to signal a process,
// a pid is not safe enough.
func waitPID(ctx context.Context, pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	p, err := proc.OpenPID(n)
	if p == nil || err != nil {
		return err // nil if the process ended
	}
	defer p.Close()
	return p.Wait(ctx)
}
