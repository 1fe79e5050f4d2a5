package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"gated/internal/base/op"
)

// verify measures opsign verify and ssh-keygen -Y verify as whole processes, by
// turns.
func (b *bench) verify() error {
	dir, err := b.gateDir("verify")
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what string
		by   key
	}{{"opsign verify, whole process", b.keys.plain}, {"  with a certificate", b.keys.certified}} {
		ours, theirs, err := b.verifyFiles(dir, c.by)
		if err != nil {
			return err
		}
		b.addf(c.what, middle(ours), milliseconds, middle(theirs),
			"the budget is ssh-keygen -Y verify in this run; quickest %.2f and %.2f ms", quantile(ours, 0), quantile(theirs, 0))
	}
	return nil
}

// verifyFiles returns what each program took each time, in milliseconds.
func (b *bench) verifyFiles(dir string, by key) (ours, theirs []float64, err error) {
	all, err := b.destroys(1, by)
	if err != nil {
		return nil, nil, err
	}
	payload, sig, signers := filepath.Join(dir, "op.json"), filepath.Join(dir, "op.sig"),
		filepath.Join(dir, "allowed_signers")
	if err := os.WriteFile(payload, all[0].payload, 0o600); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(sig, []byte(all[0].armors[0]), 0o600); err != nil {
		return nil, nil, err
	}
	for range b.size.verifications {
		took, err := timed(b.ctx, nil, b.program("opsign"), "verify", payload, "--sig", sig, "--allowed-signers", signers)
		if err != nil {
			return nil, nil, err
		}
		ours = append(ours, took)
		took, err = timed(b.ctx, all[0].payload, "ssh-keygen", "-Y", "verify", "-f", signers, "-I", by.principal,
			"-n", op.Operational.Namespace(), "-s", sig)
		if err != nil {
			return nil, nil, err
		}
		theirs = append(theirs, took)
	}
	return ours, theirs, nil
}

// timed runs a program that has to succeed and returns how long that took, in
// milliseconds.
func timed(ctx context.Context, input []byte, program string, args ...string) (float64, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = bytes.NewReader(input)
	began := now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return inMillis(now().Sub(began)), nil
}
