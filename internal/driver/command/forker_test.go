package command_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
	"gated/internal/test/forker"
	"gated/internal/test/must"
)

// TestNoProcessOutlivesACommand: a command leaves its session and forks from parent to child
// without pause. Its first process ends, or stays until the time is over. The warden
// kills what it finds until the kernel says that it has no child left. It does not give up if
// the daemon no longer waits.
func TestNoProcessOutlivesACommand(t *testing.T) {
	for name, stay := range map[string]bool{"its first process ends": false, "its first process stays": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			program := must.Get(forker.Program(b.dir))(t)
			defer func() { _ = forker.End(b.path("work")) }() // a test that fails leaves nothing
			var err error
			for limit := range timeouts(time.Second) {
				b.entry("forks", forker.Command(program, stay), func(e *catalogue.Entry) { e.Timeout = limit })
				if _, err = b.run(asking("forks")); forker.Up(b.path("work")) {
					break
				}
				beganTooLate(t, err, limit)
			}
			require.True(t, forker.Up(b.path("work")), "%v", err)
			if stay {
				require.True(t, driver.IsUnknown(err), "%v", err)
			}
			if err == nil {
				require.False(t, must.Get(forker.Alive(b.path("work")))(t), "it was called ended, and lives")
			}
			require.Eventually(t, func() bool { return !must.Get(forker.Alive(b.path("work")))(t) }, 30*time.Second, 10*time.Millisecond,
				"it outlived its warden: %v", err)
		})
	}
}
