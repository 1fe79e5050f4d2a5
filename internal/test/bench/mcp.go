package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// mcpCalls is how many calls one MCP client makes.
const mcpCalls = 1000

// mcpGreeting and mcpCall are what an agent product writes to gated mcp.
const (
	mcpGreeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"bench","version":"1"}}}` + "\n"
	mcpReady = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	mcpCall  = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"jobs","arguments":{}}}` + "\n"
)

// mcp measures the MCP server that an agent product starts.
func (b *bench) mcp() error {
	dir, err := b.state("mcp")
	if err != nil {
		return err
	}
	return b.whileServed(dir, socketIn(dir), func(*process) error {
		var starts []float64
		for range b.size.hooks {
			took, _, err := b.runMCP(dir, 0)
			if err != nil {
				return err
			}
			starts = append(starts, took)
		}
		_, peak, err := b.runMCP(dir, mcpCalls)
		if err != nil {
			return err
		}
		b.addf("gated mcp, until its first answer", middle(starts), milliseconds, 50, "p95 %.2f ms", quantile(starts, 0.95))
		b.addf(fmt.Sprintf("  resident memory, at the most in %d calls", mcpCalls), peak, mebibytes, 40, "")
		return nil
	})
}

// runMCP starts the server, and returns the milliseconds until it answered the greeting. It then makes calls, one after
// the other, ends the server, and returns its largest resident memory in MiB.
func (b *bench) runMCP(dir string, calls int) (took, peak float64, err error) {
	cmd := exec.CommandContext(b.ctx, b.program("gated"), "mcp")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GATED_SOCKET=" + socketIn(dir)}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	began := now()
	if err = cmd.Start(); err != nil {
		return 0, 0, err
	}
	answers := bufio.NewReader(out)
	ask := func(text, wanted string) error {
		if _, err := io.WriteString(in, text); err != nil {
			return err
		}
		line, err := answers.ReadString('\n')
		if err == nil && !strings.Contains(line, wanted) {
			err = fmt.Errorf("gated mcp said %q", line)
		}
		return err
	}
	err = ask(mcpGreeting, `"serverInfo"`)
	took = inMillis(now().Sub(began))
	if err == nil {
		_, err = io.WriteString(in, mcpReady)
	}
	for i := range calls {
		if err == nil {
			err = ask(fmt.Sprintf(mcpCall, i+1), `"structuredContent":{"jobs"`)
		}
	}
	err = errors.Join(err, in.Close(), cmd.Wait())
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak = float64(used.Maxrss) / 1024 // Linux counts in KiB
	}
	return took, peak, err
}
