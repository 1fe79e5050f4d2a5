package op

import (
	"fmt"
	"time"
)

// Age shows in at most four characters how long ago a moment was, by clocks that may differ: 59s, 59m, 47h, 12d.
func Age(now, at time.Time) string {
	d := max(now.Sub(at), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
