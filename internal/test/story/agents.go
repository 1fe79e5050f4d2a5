package story

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
	sshagent "golang.org/x/crypto/ssh/agent"

	"gated/internal/test/mint"
)

// agent starts ssh-agent in the foreground, so that its pid is the one to end.
// It is ready when it has printed where it listens.
func agent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: agent [NAME]")
	}
	socket := agentSocket(ts, args)
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	cmd.Env = environment(ts)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		ts.Fatalf("ssh-agent: %v", err)
	}
	if !strings.Contains(line, socket) {
		ts.Fatalf("ssh-agent printed %q", line)
	}
	ts.Setenv("SSH_AUTH_SOCK", socket)
}

// agentSocket is where an agent listens: a short path of its own for each name.
func agentSocket(ts *testscript.TestScript, args []string) string {
	return workPath(ts, strings.Join(append([]string{"a"}, args...), "-"))
}

// device starts an agent that holds one security key, and writes its public key
// to NAME.pub. What it says of whoever is there is up to the story: a person who
// touches it, one whom it also knows, or nobody.
func device(ts *testscript.TestScript, neg bool, args []string) {
	flags := map[string]byte{"touched": mint.UserPresent, "verified": mint.UserPresent | mint.UserVerified, "untouched": 0}
	if neg || len(args) != 2 {
		ts.Fatalf("usage: device NAME touched|verified|untouched")
	}
	flag, ok := flags[args[1]]
	if !ok {
		ts.Fatalf("device: %s is not what a device says", args[1])
	}
	key := mint.SKEd25519(story{ts}, args[0], mint.Authenticator{Application: mint.Application, Flags: flag, Counter: 7})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pub"), []byte(mint.Text(key.Type(), key.Blob())+" "+args[0]+"@example.com\n"), 0o644))
	socket := agentSocket(ts, args)
	l, err := net.Listen("unix", socket)
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = sshagent.ServeAgent(keyring{key: key}, conn) // until its client has had enough
				_ = conn.Close()
			}()
		}
	}()
	ts.Setenv("SSH_AUTH_SOCK", socket)
}

// story is what mint needs of a test.
type story struct{ *testscript.TestScript }

func (story) Helper() {}

// keyring is an agent of one security key. What a story has no use for it does
// not have, and calls of that would end the test.
type keyring struct {
	sshagent.ExtendedAgent
	key mint.Key
}

func (k keyring) List() ([]*sshagent.Key, error) {
	return []*sshagent.Key{{Format: k.key.Type(), Blob: k.key.Blob(), Comment: k.key.Name}}, nil
}

func (k keyring) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	return k.SignWithFlags(key, data, 0)
}

func (k keyring) SignWithFlags(key ssh.PublicKey, data []byte, _ sshagent.SignatureFlags) (*ssh.Signature, error) {
	if !bytes.Equal(key.Marshal(), k.key.Blob()) {
		return nil, errors.New("another key")
	}
	return k.key.Sign(nil, data)
}

func (keyring) Extension(string, []byte) ([]byte, error) {
	return nil, sshagent.ErrExtensionUnsupported
}
