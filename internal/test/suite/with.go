package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// with returns a context that is over if the process that started this one, with that pid, was told to end. 0 is any process, of which
// nothing is asked.
func with(ctx context.Context, parent int) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	if parent == 0 {
		return ctx, end
	}
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for !over(parent) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		end()
	}()
	return ctx, end
}

// over says whether the parent ended, or is make and got SIGINT. Then make waits for its children and tells them nothing,
// because a terminal sends SIGINT to them, too. Its handler runs meanwhile, so SIGINT is blocked, and is neither caught nor ignored (proc(5)).
func over(parent int) bool {
	if os.Getppid() != parent {
		return true
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", parent))
	has := func(set string) bool {
		_, after, _ := strings.Cut(string(status), "\n"+set+":\t")
		digits, _, _ := strings.Cut(after, "\n")
		signals, _ := strconv.ParseUint(digits, 16, 64)
		return signals&(1<<(syscall.SIGINT-1)) != 0
	}
	return has("SigBlk") && !has("SigCgt") && !has("SigIgn")
}
