package daemon_test

import (
	"fmt"
	"testing"
	"time"

	"gated/internal/host/life"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
)

// TestARestoreSaysOfAClockThatContradicts both times: it begins with this
// machine's.
func TestARestoreSaysOfAClockThatContradicts(t *testing.T) {
	w := newServing(t)
	good := read(t, w.backup("backup"))
	w.halt()
	for name, c := range map[string]struct {
		mark         time.Duration // the backup's, from now
		says, behind bool
	}{
		"of a moment ago":  {0, false, false},
		"of a month ago":   {-29 * 24 * time.Hour, false, false},
		"of longer ago":    {-31 * 24 * time.Hour, true, false},
		"of in an hour":    {time.Hour, true, true},
		"of in ten years":  {10 * 365 * 24 * time.Hour, true, true},
		"of half a minute": {30 * time.Second, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := w.file("backup", good)
			mark := time.Now().Add(c.mark)
			runSQL(t, file, fmt.Sprintf(`UPDATE time_mark SET unix = %d`, mark.Unix()))
			r := must.Get(life.Restore(t.Context(), file, w.state))(t)
			require.Equal(t, c.says, r.Clock != nil)
			if c.says {
				require.Equal(t, mark.Unix(), r.Clock.Mark.Unix())
				require.WithinDuration(t, time.Now(), r.Clock.Now, time.Hour)
				require.Equal(t, c.behind, r.Clock.Behind())
			}
			w.whole()
			now := must.Get(life.Time(t.Context(), w.state))(t)
			require.True(t, now.Believed, "it begins with this machine's")
		})
	}
}
