package cli

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// run runs a tool with one command, which takes -p and answers with what it was
// given.
func run(t *testing.T, args ...string) (code int, out, beside string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	tl := &Tool{Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }}
	var given Pairs
	echo := tl.Command(Words{Use: "echo OP", Short: "Echo"}, cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
		if tl.JSON {
			return tl.Emit(append(args, given...))
		}
		tl.Print("%s %s\n", args[0], given.String())
		return refusal.New(refusal.Conflict, "told on %s", tl.Socket)
	})
	ParamFlag(echo, &given, nil)
	echo.Flags().String("reason", "", "why")
	code = tl.Run(context.Background(), tl.Root(Words{Use: "tool", Short: "Tool"}, echo), args)
	return code, stdout.String(), stderr.String()
}

func TestACommandLineThatIsNotUnderstood(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--json"}, "usage: a command is missing\n  hint: tool --help\n"},
		{[]string{"ecko"}, "usage: unknown command \"ecko\" for \"tool\"; is \"echo\" meant?\n  hint: tool --help\n"},
		{[]string{"echo"}, "usage: accepts 1 arg(s), received 0\n  hint: tool echo --help\n"},
		{[]string{"echo", "x", "-p", "=y"}, "usage: invalid argument \"=y\" for \"-p, --param\" flag: not NAME=VALUE\n  hint: tool echo --help\n"},
	} {
		code, out, beside := run(t, c.args...)
		require.Equal(t, 2, code, c.args)
		require.Empty(t, out)
		require.Equal(t, c.want, beside)
	}
}

// A program that is called alone shows its help, and did nothing.
func TestAProgramAloneShowsItsHelp(t *testing.T) {
	code, out, beside := run(t)
	require.Equal(t, 2, code)
	require.Contains(t, out, "Usage:\n  tool [flags]\n  tool [command]\n")
	require.Empty(t, beside)
}

// A help on a screen is filled into its columns: no word is lost or cut, and lists stay lists. A file has it as it is.
func TestHelpIn(t *testing.T) {
	const text = `It asks the gate that this host has, and prints what the gate says of each of the requests that wait for
a signature.

  opsign show j12.1 --payload > op.json
  gated hub token pve1 --token-file token > pve1.token    # umask 077
  gated trust revoke SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU --state /var/lib/gated

Flags:
      --operator KEY.pub[:PRINCIPAL]   a key, or a line as in KEY.pub, that may sign destructive steps; may be given again
  -h, --help                           help for it
`
	require.Equal(t, text, helpIn(text, 0))
	require.Equal(t, `It asks the gate that this host has, and prints what the gate says of each of
the requests that wait for a signature.

  opsign show j12.1 --payload > op.json
  gated hub token pve1 --token-file token > pve1.token    # umask 077
  gated trust revoke SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU --state /var/lib/gated

Flags:
      --operator KEY.pub[:PRINCIPAL]   a key, or a line as in KEY.pub, that
                                       may sign destructive steps; may be
                                       given again
  -h, --help                           help for it
`, helpIn(text, 79))
	for _, cols := range []int{60, 79, 120} {
		in := helpIn(text, cols)
		require.Equal(t, strings.Fields(text), strings.Fields(in), cols)
		for line := range strings.Lines(in) {
			require.True(t, len(line)-1 <= cols || strings.HasPrefix(line, "  gated "), line)
		}
	}
}

func TestFlagsOfEveryCommand(t *testing.T) {
	code, out, beside := run(t, "echo", "x", "-p", "a=b", "-p", "c=", "--socket", "/s")
	require.Equal(t, 1, code)
	require.Equal(t, "x a=b c=\n", out)
	require.Equal(t, "conflict: told on /s\n", beside)
	code, out, beside = run(t, "--json", "echo", "x", "-p", "a=b")
	require.Zero(t, code)
	require.Equal(t, "[\"x\",\"a=b\"]\n", out)
	require.Empty(t, beside)
}

func TestCompletion(t *testing.T) {
	_, out, _ := run(t, "__complete", "echo", "guest.create", "-p", "")
	require.Contains(t, out, "memory=\t")
	require.Contains(t, out, "labels.\t")
	_, out, _ = run(t, "__complete", "echo", "guest.fly", "-p", "")
	require.Equal(t, ":4\n", out)

	ops, _ := CompleteOp()
	require.Len(t, ops, len(op.Catalogue()))
	shown, _ := CompleteFrom(func(context.Context) ([]string, error) { return []string{"a\tb\x1b[2J"}, nil })
	require.Equal(t, []string{"a\t\"b\\x1b[2J\""}, shown)
	none, _ := CompleteFrom(func(context.Context) ([]string, error) { return []string{"half"}, os.ErrDeadlineExceeded })
	require.Empty(t, none)
}

// Neither a daemon that takes a call and never answers nor a question that never ends
// holds a shell up, and nothing is said about either.
func TestCompletionEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	deaf := must.Get(net.Listen("unix", path))(t)
	defer deaf.Close()
	var said bytes.Buffer
	tool := Tool{Stdout: &said, Stderr: &said, Socket: path, Getenv: func(string) string { return "" }}
	asked := false
	out, directive := tool.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) ([]string, error) {
		asked = true
		_, err := cl.Status(ctx)
		return []string{"never"}, err
	})
	require.True(t, asked)
	require.Empty(t, out)
	require.Equal(t, NoFiles, directive)
	hangs := make(chan struct{})
	defer close(hangs)
	out, _ = CompleteFrom(func(context.Context) ([]string, error) { <-hangs; return []string{"never"}, nil })
	require.Empty(t, out)
	require.Empty(t, said.String())
}

func TestFlagsOfTextCompleteNoFiles(t *testing.T) {
	for _, args := range [][]string{{"__complete", "echo", "--reason", ""}, {"__completeNoDesc", "echo", "--reason", ""}} {
		_, out, _ := run(t, args...)
		require.Equal(t, ":4\n", out, args)
	}
}

func TestPairs(t *testing.T) {
	var p Pairs
	require.NoError(t, p.Set("a=b,c"))
	require.NoError(t, p.Set("d="))
	require.Equal(t, Pairs{"a=b,c", "d="}, p)
	require.Error(t, p.Set("a"))
	require.Error(t, p.Set("=a"))
}

func TestTarget(t *testing.T) {
	for _, name := range []string{"web-1", "guest/web-1"} {
		to := must.Get(Target("guest", name))(t)
		require.Equal(t, op.Target{Kind: "guest", Name: "web-1"}, to)
	}
	must.Fail(Target("guest", "../web-1"))(t, refusal.Malformed)
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	_, err := ReadFile(path, 3)
	require.Equal(t, 2, quiet().Fail("gated x", err))
	f := must.Get(Create(path, 0o600))(t)
	must.Get(f.WriteString("abc"))(t)
	require.NoError(t, f.Close())
	b := must.Get(ReadFile(path, 3))(t)
	require.Equal(t, "abc", string(b))
	must.Fail(ReadFile(path, 2))(t, refusal.Oversized)
	must.Fail(Create(path, 0o600))(t, refusal.Conflict)
	_, err = Create(filepath.Join(path, "below"), 0o600)
	require.Equal(t, 2, quiet().Fail("gated x", err))
}

func TestWhereTheGateIs(t *testing.T) {
	env := map[string]string{}
	where := func(remotes bool, args ...string) (string, string, error) {
		tl := &Tool{Getenv: func(name string) string { return env[name] }}
		root := tl.Root(Words{Use: "tool", Short: "Tool"})
		if remotes {
			tl.Remotes(root)
		}
		require.NoError(t, root.ParseFlags(args))
		o, err := tl.Where()
		return o.Remote, o.Socket, err
	}
	for _, c := range []struct {
		remotes        bool
		host           string
		args           []string
		remote, socket string
	}{
		{true, "", nil, "", ""},
		{true, "ssh://e", nil, "ssh://e", ""},
		{false, "ssh://e", nil, "", ""},
		{true, "ssh://e", []string{"-H", "ssh://f"}, "ssh://f", ""},
		{true, "", []string{"--remote=ssh://f"}, "ssh://f", ""},
		{true, "ssh://e", []string{"--socket", "/s"}, "", "/s"},
	} {
		env["GATED_HOST"] = c.host
		env["GATED_SOCKET"] = ""
		remote, socket := must.Two(where(c.remotes, c.args...))(t)
		require.Equal(t, c.remote, remote, c)
		require.Equal(t, c.socket, socket, c)
	}
	for _, args := range [][]string{{"-H", "ssh://f", "--socket", "/s"}, {"-H", ""}, {"--remote="}, {"--socket", ""}, {"-H", "", "--socket", "/s"}} {
		_, _, err := where(true, args...)
		require.Equal(t, 2, api.Exit(err), args)
	}

	// Two variables name two gates, unless a flag decides.
	env["GATED_HOST"], env["GATED_SOCKET"] = "ssh://e", "/v"
	_, _, err := where(true)
	require.Equal(t, 2, api.Exit(err))
	require.ErrorContains(t, err, "GATED_HOST and GATED_SOCKET")
	for _, args := range [][]string{{"-H", "ssh://f"}, {"--socket", "/s"}} {
		_, _, err = where(true, args...)
		require.NoError(t, err, args)
	}
	_, _, err = where(false)
	require.NoError(t, err, "a tool that reaches this host's gate alone has one variable")
	env["GATED_HOST"] = ""
	remote, socket := must.Two(where(true))(t)
	require.Empty(t, remote+socket, "the client reads GATED_SOCKET")
}

// The note is about the host's own gate, whose unit is known.
func TestASlowGate(t *testing.T) {
	var said bytes.Buffer
	tl := Tool{Stderr: &said}
	host := hostgate.Host{Root: t.TempDir()}
	tl.slow(host, "/run/user/1000/gated/gated.sock")
	require.Empty(t, said.String())
	tl.slow(host, client.SystemSocket)
	require.Equal(t, "note: connected; the daemon does not answer yet\n", said.String(), "systemd does not run")
	said.Reset()
	for _, dir := range []string{"/run/systemd/system", "/usr/lib/systemd/system/gated.service"} {
		require.NoError(t, os.MkdirAll(host.Root+dir, 0o755))
	}
	tl.slow(host, client.SystemSocket)
	require.Equal(t, "note: connected; the daemon does not answer yet\n  systemctl status gated\n  journalctl -u gated -n 20\n", said.String())
}
