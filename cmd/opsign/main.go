// Opsign is the operator's tool: it shows what waits for a signature, signs
// exactly that with an SSH key, and says what became of it.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(program()) }

// program runs the command line of this process and returns its exit code.
func program() int { return newTool().run(context.Background(), os.Args[1:]) }
