package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// verifications is how often each program verifies.
const verifications = 30

// verify measures opsign verify and ssh-keygen -Y verify as whole processes, by
// turns.
func (b *bench) verify() error {
	dir, err := b.gateDir("verify")
	if err != nil {
		return err
	}
	all, err := b.destroys(1)
	if err != nil {
		return err
	}
	payload, sig, signers := filepath.Join(dir, "op.json"), filepath.Join(dir, "op.sig"), filepath.Join(dir, "allowed_signers")
	if err := os.WriteFile(payload, all[0].payload, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(sig, []byte(all[0].armor), 0o600); err != nil {
		return err
	}
	var ours, theirs []float64
	for range verifications {
		for _, p := range []struct {
			took  *[]float64
			input []byte
			argv  []string
		}{
			{&ours, nil, []string{b.program("opsign"), "verify", payload, "--sig", sig, "--allowed-signers", signers}},
			{&theirs, all[0].payload, []string{"ssh-keygen", "-Y", "verify", "-f", signers, "-I", principal, "-n", "operational@gated", "-s", sig}},
		} {
			cmd := exec.CommandContext(b.ctx, p.argv[0], p.argv[1:]...)
			cmd.Stdin = bytes.NewReader(p.input)
			began := now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", p.argv[0], err, out)
			}
			*p.took = append(*p.took, inMillis(now().Sub(began)))
		}
	}
	b.table.add(row{"opsign verify, whole process", middle(ours), milliseconds, middle(theirs),
		fmt.Sprintf("the budget is ssh-keygen -Y verify in this run; quickest %.2f and %.2f ms", quantile(ours, 0), quantile(theirs, 0))})
	return nil
}
