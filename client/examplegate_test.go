package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/server"
	"gated/internal/test/servicetest"
)

// exampleGate is a real server over guests in memory, for examples, which have no testing.T.
type exampleGate struct {
	socket, checkout string
	approve          func(request string) // as the one operator
	end              func()
}

func newGate() exampleGate {
	t := &exampleT{}
	dir, err := os.MkdirTemp("", "gated")
	t.check(err)
	dir, err = filepath.EvalSymlinks(dir)
	t.check(err)
	w := servicetest.Unwatched(t, dir)
	g := exampleGate{socket: filepath.Join(dir, "gated.sock"), checkout: filepath.Join(dir, "checkout")}
	t.check(os.Mkdir(g.checkout, 0o755))
	socket, err := server.Listen(g.socket, -1)
	t.check(err)
	s := server.New(server.Config{Gate: w.Gate, Waits: w.Waits, Agents: w.Agents, Reservations: w.Reservations,
		Status: func(context.Context) (api.Status, error) { return api.Status{Host: servicetest.Host}, nil },
		UID:    uint32(os.Getuid()), SingleUser: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, socket) }()
	g.approve = func(request string) {
		id, err := op.ParseStepID(request)
		t.check(err)
		c, err := client.New(client.Options{Socket: g.socket})
		t.check(err)
		defer c.Close()
		_, err = c.Approve(ctx, request, w.Approval(t, id))
		t.check(err)
	}
	g.end = func() {
		cancel()
		t.check(<-ended)
		w.Close(t)
		t.check(os.RemoveAll(dir))
	}
	return g
}

// exampleT is what servicetest needs of a test. A failure is a panic, which ends the example.
type exampleT struct{ testing.TB }

func (t *exampleT) Helper()                           {}
func (t *exampleT) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) FailNow()                          { panic("failed") }

func (t *exampleT) check(err error) {
	if err != nil {
		panic(err)
	}
}
