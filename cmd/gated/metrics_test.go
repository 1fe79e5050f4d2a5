package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATextfileHasTheGatesFamiliesAlone(t *testing.T) {
	require.Equal(t, "# HELP gated_up x\n# TYPE gated_up gauge\ngated_up 1\ngated_check_ok{check=\"go_x\"} 1\n", string(gatesOwn([]byte(
		"# HELP gated_up x\n# TYPE gated_up gauge\ngated_up 1\n# HELP go_goroutines x\n# TYPE go_goroutines gauge\ngo_goroutines 9\n"+
			"gated_check_ok{check=\"go_x\"} 1\n# TYPE process_open_fds gauge\nprocess_open_fds 5\n"))))
}
