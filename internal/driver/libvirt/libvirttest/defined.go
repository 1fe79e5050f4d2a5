package libvirttest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

var uuid = regexp.MustCompile(`<uuid>([0-9a-f-]+)</uuid>`)

// Defined are the UUIDs of all domains by name, from libvirtd's definitions on disk. A domain
// that runs without a definition is not among them.
func (l *Libvirtd) Defined() map[string]string {
	l.t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(l.dir, "etc", "qemu", "*.xml")))(l.t)
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(l.t, err)
		if found := uuid.FindSubmatch(text); found != nil {
			out[strings.TrimSuffix(filepath.Base(file), ".xml")] = string(found[1])
		}
	}
	return out
}
