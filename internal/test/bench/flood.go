package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// FloodArg is the first argument of this program if it is to flood a daemon.
const FloodArg = "flood"

// floodTargets is how many slow steps a flood has under way.
const floodTargets = 20

// floodKind is one thing that a uid can do as often as it may.
type floodKind struct {
	name, what string
	run        func(socket string, on func()) error
	path, says string // where the daemon shows that it has the flood; "" for a flood that it refuses
}

var floodKinds = []floodKind{
	{"bodies", "250 connections with bodies of 1 MiB", floodBodies, "", ""},
	{"small", "250 connections with bodies of 23 KiB", floodSmall, "", ""},
	{"documents", "documents of 16 MiB", floodDocuments, "", ""},
	{"steps", "20 slow steps", floodSteps, "/v1/jobs?state=dispatched", `"command/slow`},
	{"probes", "200 submits that are probed", floodProbes, "/v1/requests", `"command/probed"`},
	{"processes", "300 processes without an environment", floodProcesses, "", ""},
}

// Flood floods the daemon at a socket with one kind of flood. It writes a byte to out
// once the flood is on, and goes on until in ends.
func Flood(socket, kind string, in io.Reader, out io.Writer) error {
	for _, k := range floodKinds {
		if k.name != kind {
			continue
		}
		var once sync.Once
		failed := make(chan error, 1)
		go func() { failed <- k.run(socket, func() { once.Do(func() { _, _ = out.Write([]byte("!")) }) }) }()
		ended := make(chan error, 1)
		go func() { _, err := io.Copy(io.Discard, in); ended <- err }()
		select {
		case err := <-failed:
			return err
		case err := <-ended:
			return err
		}
	}
	return fmt.Errorf("there is no flood %q", kind)
}

// floodWith sends the same requests on n connections for ever. The flood is on when
// each connection was made once. Refusals do not end it.
func floodWith(socket string, n int, on func(), request func(i int) []byte) error {
	var begun atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			r := request(i)
			for errs[i] == nil {
				c, err := dial(socket)
				if err != nil {
					errs[i] = err
					return
				}
				if begun.Add(1) == int64(n) {
					on()
				}
				_, _ = c.do(r)
				errs[i] = c.Close()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// bodyOf is a submit of about so many bytes. Its text takes the most memory for each.
func bodyOf(size int) []byte {
	const head, tail = `{"steps":[`, `{}]}`
	return fmt.Appendf(nil, "POST /v1/jobs HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n%s%s%s",
		len(head)+len(tail)+3*(size/3), head, strings.Repeat("{},", size/3), tail)
}

func floodBodies(socket string, on func()) error {
	body := bodyOf(1<<20 - 20)
	return floodWith(socket, 250, on, func(int) []byte { return body })
}

// floodSmall has as many names and values as a body may have.
func floodSmall(socket string, on func()) error {
	body := bodyOf(23 << 10)
	return floodWith(socket, 250, on, func(int) []byte { return body })
}

// floodDocuments plans documents, of which a uid has one at a time.
func floodDocuments(socket string, on func()) error {
	var b strings.Builder
	b.WriteString("apiVersion: gated/v1\nhost: " + host + "\nguests:\n")
	for i := 0; b.Len() < 16<<20-100; i++ {
		fmt.Fprintf(&b, "- {name: g%d, memory: 1}\n", i)
	}
	request := fmt.Appendf(nil, "POST /v1/plan HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n%s",
		b.Len(), b.String())
	return floodWith(socket, 4, on, func(int) []byte { return request })
}

func submitOf(body string) []byte {
	return fmt.Appendf(nil, "POST /v1/jobs HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func floodSteps(socket string, on func()) error {
	return floodWith(socket, floodTargets, on, func(i int) []byte {
		return submitOf(fmt.Sprintf(`{"op":"command.run","target":"command/slow%d"}`, i))
	})
}

func floodProbes(socket string, on func()) error {
	return floodWith(socket, 200, on, func(i int) []byte {
		return submitOf(fmt.Sprintf(`{"op":"command.run","target":"command/probed","params":{"n":"%d"}}`, i))
	})
}

// floodProcesses starts idle processes of which the kernel shows no environment.
func floodProcesses(_ string, on func()) error {
	runtime.LockOSThread() // the kernel ends them with the thread that started them
	for range 300 {
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.Env, cmd.Dir = []string{}, "/"
		cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	on()
	select {}
}

// MaybeFlood floods if the part "floods" started this program with these arguments,
// and reports whether it did.
func MaybeFlood(args []string) (ok bool, err error) {
	if len(args) != 3 || args[0] != FloodArg {
		return false, nil
	}
	return true, Flood(args[1], args[2], os.Stdin, os.Stdout)
}
