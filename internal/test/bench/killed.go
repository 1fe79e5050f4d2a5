package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"gated/client/api"
)

// killed measures how long a reservation lasts after its agent was killed: until the
// daemon answers another client, which waits for it.
func (b *bench) killed() error {
	dir, err := b.state("killed")
	if err != nil {
		return err
	}
	at, err := b.scope("killed-checkout")
	if err != nil {
		return err
	}
	return b.whileServed(dir, socketIn(dir), func(p *process) error {
		waiting, err := join(p.socket, "waiting")
		if err != nil {
			return err
		}
		defer waiting.Close()
		checking, err := dial(p.socket)
		if err != nil {
			return err
		}
		defer checking.Close()
		var took []float64
		for i := range b.size.kills {
			d, err := b.killOne(p.socket, at, i, waiting, checking)
			if err != nil {
				return err
			}
			took = append(took, inMillis(d))
		}
		b.addf(fmt.Sprintf("free after its agent was killed, slowest of %d", len(took)), quantile(took, 1), milliseconds, 100,
			"p50 %.2f ms, p95 %.2f ms; until a client that waits is answered", middle(took), quantile(took, 0.95))
		return nil
	})
}

// killOne kills an agent that has a reservation, while another client waits for that
// path. It returns how long the other client waited after the kill.
func (b *bench) killOne(socket string, at api.Place, i int, waiting *holding, checking *conn) (time.Duration, error) {
	path := fmt.Sprintf("src/f%d.go", i)
	agent, err := b.employ(socket, at.Path, fmt.Sprintf("agent%d", i), path)
	if err != nil {
		return 0, err
	}
	claim, err := waiting.claim(api.Reserve{Scope: at, Patterns: []string{"src/**"},
		WaitSeconds: int64(patience / time.Second)})
	if err != nil {
		return 0, err
	}
	if _, err := waiting.Write(claim); err != nil {
		return 0, err
	}
	// By the time of this answer the claim waits. If it does not wait yet, the figure is
	// only larger.
	if err := b.holds(checking, at, path); err != nil {
		return 0, err
	}
	began := now()
	if err := agent.Process.Signal(unix.SIGKILL); err != nil {
		return 0, err
	}
	answer, err := waiting.answer()
	took := now().Sub(began)
	_ = agent.Wait() // it was killed
	if err != nil {
		return 0, err
	}
	_, err = waiting.do(waiting.release(between(answer, `"id":"`)))
	return took, err
}

// employ starts a process that registers as an agent and reserves a path.
func (b *bench) employ(socket, dir, name, path string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(b.ctx, "/bin/sh", "-c",
		`"$0" agent register "$1" >&2 && "$0" reserve "$2" >&2 && echo && exec sleep 600`,
		b.program("gated"), name, path)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GATED_SOCKET="+socket)
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s got nothing: %w", name, err), cmd.Wait())
	}
	return cmd, nil
}

// holds is an error if no agent has a path.
func (b *bench) holds(c *conn, at api.Place, path string) error {
	request, err := post("/v1/reservations/check", api.Check{Scope: at, Patterns: []string{path}})
	if err != nil {
		return err
	}
	answer, err := c.do(request)
	if err == nil && between(answer, `"agent":"`) == "" {
		err = fmt.Errorf("no agent has %s: %.300s", path, answer)
	}
	return err
}
