// Gated is the daemon that stands in front of every change to a host's guests,
// and the command line for those who ask for changes and watch them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gated/internal/agent"
	"gated/internal/cli"
	"gated/internal/daemon"
)

func main() {
	agent.MaybeOrphan()
	daemon.MaybeExecGuest()
	os.Exit(program())
}

// program runs the command line of this process and returns its exit code.
func program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, which is as safe as a stop
	t := &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, ReadToken: readToken}, stdin: os.Stdin}
	return t.run(ctx, os.Args[1:])
}
