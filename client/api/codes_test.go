package api

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// declaredCodes reads the constants of type Code out of internal/base/refusal/refusal.go,
// so that a code which nobody gave a meaning is noticed.
func declaredCodes(t *testing.T) []refusal.Code {
	t.Helper()
	f := must.Get(parser.ParseFile(token.NewFileSet(), "../../internal/base/refusal/refusal.go", nil, 0))(t)
	var codes []refusal.Code
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Code" && len(v.Values) == 1 {
			text := must.Get(strconv.Unquote(v.Values[0].(*ast.BasicLit).Value))(t)
			codes = append(codes, refusal.Code(text))
		}
		return true
	})
	return codes
}

func TestEveryCodeIsInTheTable(t *testing.T) {
	codes := declaredCodes(t)
	require.GreaterOrEqual(t, len(codes), 33, "the parser found too few codes to be right")
	for _, c := range codes {
		_, ok := byCode[c]
		require.True(t, ok, "no row for %s", c)
	}
	require.Len(t, Codes, len(codes), "a row without a code, or a code twice")
	require.Len(t, byCode, len(codes))
	for _, m := range Codes {
		require.NotEmpty(t, m.Title, m.Code)
		require.NotEmpty(t, http.StatusText(m.Status), m.Code)
		require.Contains(t, []int{ExitRefused, ExitWaits, ExitInternal}, m.Exit, m.Code)
	}
}

func TestExit(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitDone},
		{refusal.New(refusal.Conflict, "x"), ExitRefused},
		{fmt.Errorf("wrapped: %w", refusal.New(refusal.Replayed, "x")), ExitRefused},
		{refusal.PendingSignature, ExitWaits},
		{refusal.New(refusal.ThresholdUnmet, "x"), ExitWaits},
		{refusal.New(refusal.Unavailable, "x"), ExitInternal},
		{refusal.New(refusal.Code("from_the_future"), "x"), ExitInternal},
		{errors.New("anything"), ExitInternal},
		{fmt.Errorf("wrapped: %w", exitError(4)), ExitUnreachable},
		{programEnded(t, 128), ExitInternal},
		{errors.Join(refusal.New(refusal.NotAllowed, "x"), programEnded(t, 3)), ExitRefused},
	} {
		require.Equal(t, c.want, Exit(c.err), "%v", c.err)
	}
}

type exitError int

func (e exitError) Error() string    { return "exit" }
func (e exitError) CommandExit() int { return int(e) }

// programEnded is the error of another program, whose exit code is not ours.
func programEnded(t *testing.T, code int) error {
	t.Helper()
	err := exec.Command("sh", "-c", fmt.Sprintf("exit %d", code)).Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, code, exit.ExitCode())
	return fmt.Errorf("wrapped: %w", err)
}

func TestExitOfEveryState(t *testing.T) {
	want := map[op.State]int{op.StatePlanned: 0, op.StatePending: 3, op.StateAuthorized: 0, op.StateDispatched: 0,
		op.StateSucceeded: 0, op.StateFailed: 1, op.StateInterrupted: 1, op.StateRejected: 1, op.StateExpired: 1,
		op.StateSuperseded: 1, op.StateCancelled: 1, op.StateRefused: 1}
	for _, s := range op.States {
		n, ok := want[s]
		require.True(t, ok, s)
		require.Equal(t, n, ExitOfState(s), s)
	}
}

func TestProblemRoundTrip(t *testing.T) {
	id := op.StepID{Job: 12, Index: 1}
	for _, c := range declaredCodes(t) {
		in := refusal.New(c, `it is "so"`).At(refusal.StageNonce).WithHint("do that").About(id, op.StateSucceeded)
		b := must.Get(Encode(ProblemOf(in)))(t)
		var p Problem
		require.NoError(t, DecodeAnswer(b, &p))
		out := p.Refusal()
		require.Equal(t, in, out)
		require.ErrorIs(t, out, c)
		require.Equal(t, byCode[c].Status, p.Status)
		require.Equal(t, "urn:gated:problem:"+string(c), p.Type)
	}
}

func TestProblemTellsNothingOfInternalErrors(t *testing.T) {
	p := ProblemOf(errors.New("open /var/lib/gated/secret: permission denied"))
	require.Equal(t, refusal.Internal, p.Code)
	require.Equal(t, http.StatusInternalServerError, p.Status)
	require.NotContains(t, p.Detail, "secret")
}

func TestProblemWithoutCodeIsInternal(t *testing.T) {
	require.ErrorIs(t, Problem{Detail: "?", Request: "not an id"}.Refusal(), refusal.Internal)
}
