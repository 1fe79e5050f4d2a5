// Gated is the daemon that stands in front of every change to a host's guests,
// and the command line for those who ask for changes and watch them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gated/internal/agents/agent"
	"gated/internal/host/daemon"
	"gated/internal/wire/cli"
)

func main() {
	agent.MaybeOrphan()
	daemon.MaybeExecGuest()
	os.Exit(program())
}

// program runs the command line of this process and returns its exit code.
func program() int {
	ctx, stop := untilSignal()
	defer stop()
	t := &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, ReadToken: readToken},
		stdin: os.Stdin}
	return t.run(ctx, os.Args[1:])
}

// untilSignal returns a context that ends with the first signal to stop. By then
// a second one ends the process, which is as safe as a stop.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-came:
		case <-ctx.Done():
		}
		signal.Stop(came) // before anybody is told that the stop has begun
		cancel()
	}()
	return ctx, cancel
}
