package mcp

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/host/server"
	"gated/internal/test/must"
	"gated/internal/test/servicetest"
)

// world is a gate behind its real server.
type world struct {
	*servicetest.World
	socket string
}

// newWorld starts a server. change may alter its configuration.
func newWorld(t *testing.T, change ...func(*server.Config)) world {
	t.Helper()
	w := servicetest.New(t)
	socket, err := server.Listen(filepath.Join(t.TempDir(), "s"), -1)
	require.NoError(t, err)
	config := server.Config{Gate: w.Gate, Desired: w.Desired, Guests: w.Shown, Commands: w.Commands, Log: w.Log, Waits: w.Waits, Canary: w.Canary,
		Agents: w.Agents, Reservations: w.Reservations, Backup: w.Backup,
		Backends: func(context.Context) ([]api.Backend, error) { return nil, nil },
		Status:   func(context.Context) (api.Status, error) { return api.Status{Host: servicetest.Host}, nil },
		UID:      uint32(os.Getuid()), SingleUser: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	for _, fn := range change {
		fn(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.New(config).Serve(ctx, socket) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	return world{w, socket.Path()}
}

// options are those of a server for the agent with that token; "" for none.
func (w world) options(t *testing.T, token string) Options {
	t.Helper()
	c := must.Get(client.New(client.Options{Socket: w.socket, Token: token, Getenv: func(string) string { return "" }}))(t)
	t.Cleanup(c.Close)
	return Options{Client: c, Version: "test", Directory: t.TempDir()}
}

// pipes are a server's standard input and output, as its client holds them.
type pipes struct {
	in    *io.PipeWriter
	out   *io.PipeReader
	ended chan error
}

// serve starts a server. The test ends it by closing in.
func serve(t *testing.T, o Options) pipes {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	p := pipes{toServer, fromServer, make(chan error, 1)}
	go func() {
		err := Serve(t.Context(), in, out, o)
		_ = out.Close()
		p.ended <- err
	}()
	t.Cleanup(func() { _ = toServer.Close(); _ = fromServer.Close() })
	return p
}

// connect returns a session of the SDK's own client.
func connect(t *testing.T, o Options, co *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	p := serve(t, o)
	c := sdk.NewClient(&sdk.Implementation{Name: "product", Version: "1"}, co)
	s, err := c.Connect(t.Context(), &sdk.IOTransport{Reader: p.out, Writer: p.in}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// used calls a tool and decodes its answer into out. It returns the answer.
func used(t *testing.T, s *sdk.ClientSession, name string, in, out any) *sdk.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: in})
	require.NoError(t, err)
	require.Len(t, res.Content, 1)
	text := res.Content[0].(*sdk.TextContent).Text
	require.JSONEq(t, text, string(must.Get(json.Marshal(res.StructuredContent))(t)), "text and structure differ")
	require.NoError(t, json.Unmarshal([]byte(text), out), text)
	return res
}

// granted is used for a call that has to succeed.
func granted(t *testing.T, s *sdk.ClientSession, name string, in, out any) {
	t.Helper()
	res := used(t, s, name, in, out)
	require.False(t, res.IsError, "%s: %v", name, res.StructuredContent)
}

// denied returns why a call was refused.
func denied(t *testing.T, s *sdk.ClientSession, name string, in any) problem {
	t.Helper()
	var out failure
	res := used(t, s, name, in, &out)
	require.True(t, res.IsError, "%s: %v", name, res.StructuredContent)
	return out.Error
}

type object = map[string]any

// raw is a client that writes lines itself.
type raw struct {
	pipes
	answers *bufio.Scanner
}

// greet starts a server and gets over the greeting.
func greet(t *testing.T, o Options) raw {
	t.Helper()
	r := raw{pipes: serve(t, o)}
	r.answers = bufio.NewScanner(r.out)
	r.answers.Buffer(nil, 4<<20)
	r.say(t, `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"p","version":"1"}}}`)
	require.Contains(t, r.hear(t), `"serverInfo"`)
	r.say(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r
}

func (r raw) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(r.in, line+"\n")
	require.NoError(t, err)
}

func (r raw) hear(t *testing.T) string {
	t.Helper()
	require.True(t, r.answers.Scan(), "%v", r.answers.Err())
	return r.answers.Text()
}
