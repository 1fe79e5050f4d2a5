package drivertest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/driver/drivertest"
)

// faultEnv names the toy's fault in a process that runs the suite over the toy.
const faultEnv = "DRIVERTEST_FAULT"

// The toy without a fault passes. With a fault, in its own process, it fails.
func TestToy(t *testing.T) {
	fault := os.Getenv(faultEnv)
	drivertest.Run(t, func(*testing.T) drivertest.World {
		return (&toy{fault: fault, has: map[string]guest{}}).world()
	})
}

// Each fault of a driver is found by the case for that fault.
func TestEachFaultIsFound(t *testing.T) {
	for fault, by := range map[string]string{
		"acts while it prepares":      "a permit that was used",
		"does what it does not list":  "an operation that the back end does not have",
		"follows names":               "another incarnation between approval and execution",
		"acts on the name":            "a name that is taken once the permit was used",
		"covers no state":             "another state between approval and execution",
		"covers data":                 "data alone makes nothing stale",
		"covers limits":               "limits are no part of what is signed",
		"covers whether it runs":      "running is no part of what is signed",
		"looks change something":      "looks change nothing",
		"lists in another unit":       "a list says what a look says",
		"knows every task":            "what is not there",
		"knows other names":           "names that no target has",
		"says no facts":               "what would be lost is said before it is signed",
		"says no numbers":             "facts have numbers in them",
		"names no storage":            "exactly the storage that was named goes",
		"takes others with it":        "what is signed is done, and nothing else",
		"asks nobody who else has it": "scratch whose disk another guest has waits",
		"asks once who else has it":   "a disk that another guest gets once the permit of an unsigned destroy was used",
		"takes what others have":      "a disk of another guest stays",
		"forgets births":              "what the gate made is known as that",
		"sees no writes":              "a target in which other hands wrote is not as it was made",
		"overwrites what changed":     "a field that a hand changes once the permit of an undo was used",
		"keeps labels":                "a label that is taken away is gone",
		"rounds":                      "a changed wish is reached in one pass",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			name := strings.ReplaceAll(by, " ", "_")
			run := exec.Command(os.Args[0], "-test.run", "^TestToy$/^"+name+"$", "-test.v")
			run.Env = append(os.Environ(), faultEnv+"="+fault)
			out, err := run.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite passes it:\n%s", out)
			require.Contains(t, string(out), "--- FAIL: TestToy/"+name, "it fails elsewhere:\n%s", out)
			require.NotContains(t, string(out), "panic:")
		})
	}
}
