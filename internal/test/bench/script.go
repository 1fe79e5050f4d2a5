package bench

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// scriptText is the same job done with ssh-keygen, flock and a file.
//
//go:embed testdata/script.sh
var scriptText []byte

// script measures that job, the script that docs/benchmarks.md describes.
func (b *bench) script() (err error) {
	run := 0
	b.limit.script, err = median(b.size.runs, func() (float64, error) {
		run++
		return b.scriptOnce(fmt.Sprintf("script-%d", run))
	})
	if err != nil {
		return err
	}
	b.addf("script: ssh-keygen -Y verify, flock, fsynced nonces, 32 clients", b.limit.script, perSecond, 0, "")
	return nil
}

func (b *bench) scriptOnce(name string) (float64, error) {
	dir, err := b.gateDir(name)
	if err != nil {
		return 0, err
	}
	n := clients * b.size.scriptEach
	all, err := b.destroys(n, b.keys.plain)
	if err != nil {
		return 0, err
	}
	files := map[string][]byte{"script.sh": scriptText, "nonces": nil}
	for i, s := range all {
		files[fmt.Sprintf("op.%d.json", i)] = s.payload
		files[fmt.Sprintf("op.%d.sig", i)] = []byte(s.armors[0])
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return 0, err
		}
	}
	cmd := exec.CommandContext(b.ctx, "bash", "script.sh", strconv.Itoa(clients), strconv.Itoa(b.size.scriptEach))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	began := now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("the script: %w", err)
	}
	took := now().Sub(began)
	nonces, err := os.ReadFile(filepath.Join(dir, "nonces"))
	if got := strings.Count(string(nonces), "\n"); err == nil && got != n {
		err = fmt.Errorf("the script accepted %d of %d operations", got, n)
	}
	return rate(n, took), err
}
