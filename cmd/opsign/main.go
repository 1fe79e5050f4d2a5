// Opsign is the operator's tool: it shows what waits for a signature, signs
// exactly that with an SSH key, and says what became of it.
package main

import (
	"context"
	"os"
	"time"

	"gated/internal/cli"
)

func main() { os.Exit(program()) }

// program runs the command line of this process and returns its exit code.
func program() int {
	t := &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}, stdin: os.Stdin, now: time.Now}
	return t.run(context.Background(), os.Args[1:])
}
