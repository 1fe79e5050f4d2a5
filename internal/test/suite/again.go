package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// looks is how often a test that failed has to pass alone.
const looks = 3

// mostLooks is how many failures are looked at again. More are no accident.
const mostLooks = 5

// unforgiven are the packages whose failures always count, with those below them: what they protect is lost only once.
var unforgiven = []string{
	"gated/internal/agents/reserve", "gated/internal/authz", "gated/internal/base/store", "gated/internal/gate", "gated/internal/host/fsck", "gated/internal/ledger",
	"gated/internal/log", "gated/internal/nonce",
	"gated/internal/test/crash", "gated/internal/test/faults", "gated/internal/test/linear", "gated/internal/test/loss", "gated/internal/test/matrix",
}

// noSecondLook says why these failures are final, and nothing if they may be looked at again. One that is final makes all final,
// because the run fails then.
func noSecondLook(failures []failure) string {
	if len(failures) > mostLooks {
		return fmt.Sprintf("no second look: %d tests failed, which is more than %d", len(failures), mostLooks)
	}
	if len(failures) > 0 && os.Getenv("GATED_TEST_LEDGER") != "" {
		return "no second look: the tests are over a ledger"
	}
	for _, f := range failures {
		switch {
		case f.test == "":
			return "no second look: " + f.pkg + " failed as a whole"
		case f.crashed:
			return "no second look: " + f.pkg + " had a race, a panic or a time-out, or was stuck"
		case slices.ContainsFunc(unforgiven, func(p string) bool { return f.pkg == p || strings.HasPrefix(f.pkg, p+"/") }):
			return "no second look: the tests of " + f.pkg + " have none"
		}
	}
	return ""
}

// again runs a test alone so often, and then its package as a whole, and says whether all passed. The test is the one that is
// no part of another, because that may look at what its parts left. The package may look at what its tests left. go test takes
// a test for passed if none has the name, so the passes are counted.
func again(ctx context.Context, log io.Writer, place func(*exec.Cmd), o options, f failure) bool {
	whole, _, _ := strings.Cut(f.test, "/")
	alone := []string{"-count", fmt.Sprint(looks), "-failfast", "-run", "^" + regexp.QuoteMeta(whole) + "$", f.pkg}
	for _, args := range [][]string{alone, {f.pkg}} {
		r := newReader(log, io.Discard, o.stuck)
		if goTest(ctx, r, place, slices.Concat(o.flags, args)) != nil || len(r.failures) > 0 || len(r.crashed) > 0 {
			return false
		}
		if len(args) > 1 && r.passes[f.name()] != looks {
			return false
		}
	}
	return true
}
