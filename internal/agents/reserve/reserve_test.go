package reserve

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

func TestWhatIsReservedIsNobodyElses(t *testing.T) {
	w := newWorld(t)
	builder, tester := w.register("builder", 1000), w.register("tester", 1000)
	c := claim(builder, "src/**", "./docs/", "src/**")
	c.Reason = "renames"
	g := w.reserve(c)
	require.Equal(t, Granted{Reservation: Reservation{ID: 1, Scope: Scope{ID: "s1", Place: repo, At: noon}, Patterns: []string{"docs/", "src/**"},
		Mode: Exclusive, Holder: Holder{Name: "builder", UID: 1000, Registration: 1}, Alive: true, Reason: "renames", CreatedAt: noon, ExpiresAt: noon.Add(DefaultTTL)}}, g)

	_, conflicts, err := w.Reserve(t.Context(), claim(tester, "lib/x", "src/a/b.go"))
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, `"src/a/b.go" overlaps "src/**" of r1, which builder (uid 1000, alive) has had since 2026-03-01T12:00:00Z, till 2026-03-01T12:15:00Z`)
	require.NotContains(t, err.Error(), "renames", "the reason is another agent's text")
	require.Equal(t, []Conflict{{Pattern: "src/a/b.go", Overlaps: "src/**", Reservation: g.Reservation}}, conflicts)
	require.Equal(t, []Reservation{g.Reservation}, w.all(), "all or nothing")

	w.reserve(claim(tester, "lib/x"))
	w.refused(claim(op.Requester{Source: op.SourceAPI, UID: 1000}, "docs/x"), refusal.Conflict)
	_, err = w.Release(t.Context(), tester, g.ID)
	require.ErrorIs(t, err, refusal.NotHolder)
	r, err := w.Release(t.Context(), builder, g.ID)
	require.NoError(t, err)
	require.Equal(t, g.Reservation, r)
	w.reserve(claim(tester, "src/a/b.go"))
	_, err = w.Release(t.Context(), builder, g.ID)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	w.sound()

	reserved := w.entries(audit.Reserved)
	require.Len(t, reserved, 3)
	e := reserved[0]
	require.Equal(t, audit.Entry{Seq: 1, Time: noon, Kind: audit.Reserved, By: "agent:builder#1", PID: 7, Target: "scope/s1", Incarnation: repo.Incarnation(),
		Reason: "renames", Reservation: "r1", Patterns: []string{"docs/", "src/**"}, Mode: "exclusive", Holder: "builder",
		Until: noon.Add(DefaultTTL), For: []string{"builder"}}, func() audit.Entry { e.Prev = ""; return e }())
	require.Len(t, w.entries(audit.Released), 1)
	require.Contains(t, w.changed, op.Target{Kind: op.KindScope, Name: "s1"})
}

// What to do about a conflict is what can be done about this one.
func TestTheWayOutOfAConflict(t *testing.T) {
	conflict := func(asked, holder string, alive bool) Conflict {
		return Conflict{Pattern: asked, Overlaps: "src/**", Reservation: Reservation{Holder: Holder{Name: holder, UID: 1000}, Alive: alive}}
	}
	for want, in := range map[string][]Conflict{
		"wait in line for it: --wait-for D; or ask builder to release it": {conflict("src/a.go", "builder", true)},
		"wait in line for it: --wait-for D":                               {conflict("src/a.go", "builder", false), conflict("src/a.go", "", true)},
		"wait in line for it: --wait-for D; or reserve something narrower": {
			conflict("src/a.go", "builder", false), conflict("src/", "builder", false)},
		"wait in line for it: --wait-for D; or ask tester to release it; or reserve something narrower": {
			conflict("src/*.go", "builder", false), conflict("src/a.go", "tester", true)},
	} {
		require.Equal(t, want, refusal.As(inTheWay{conflicts: in}.refusal()).Hint)
	}
	require.NotContains(t, refusal.As(inTheWay{before: &waiter{wish: &wish{}}}.refusal()).Hint, "narrower")
}

func TestSharedOnesStandBesideEachOther(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	shared := claim(a, "**")
	shared.Mode = Shared
	g := w.reserve(shared)
	shared.By = b
	w.reserve(shared)
	w.refused(claim(b, "x"), refusal.Conflict)

	mine := claim(a, "**") // the same patterns, now exclusive
	w.refused(mine, refusal.Conflict)
	_, err := w.ReleaseMine(t.Context(), b)
	require.NoError(t, err)
	again := w.reserve(mine)
	require.True(t, again.Renewed)
	require.Equal(t, g.ID, again.ID)
	require.Equal(t, Exclusive, again.Mode)
	require.Equal(t, Exclusive, w.all()[0].Mode)
	w.refused(claim(b, "x"), refusal.Conflict)
}

func TestAHoldersOwnDoNotConflictAndDoNotStack(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	first := w.reserve(claim(a, "src/**"))
	w.reserve(claim(a, "**/x"))
	w.pass(time.Minute)
	c := claim(a, "./src//**", "/srv/repo/src/**")
	c.TTL, c.Reason, c.Keep = MinTTL, "more", true
	g := w.reserve(c)
	require.True(t, g.Renewed)
	require.Equal(t, first.ID, g.ID)
	require.Equal(t, first.ExpiresAt, g.ExpiresAt, "the later of both ends")
	require.Equal(t, "more", g.Reason)
	require.True(t, g.Keep)
	require.Equal(t, noon, g.CreatedAt)
	c.TTL = time.Hour
	require.Equal(t, noon.Add(time.Minute+time.Hour), w.reserve(c).ExpiresAt)
	require.Len(t, w.all(), 2)
	require.Len(t, w.entries(audit.Renewed), 2)

	// A name of another uid is another holder; a later registration is the same.
	other := a
	other.UID = 2
	w.refused(Claim{By: other, Place: repo, Patterns: []string{"src/a"}}, refusal.NotHolder)
	w.refused(claim(w.register("b", 2), "src/a"), refusal.Conflict)
	require.True(t, w.reserve(claim(w.register("a", 1), "src/**")).Renewed)
}

func TestRenewCountsFromNow(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	g := w.reserve(claim(a, "x"))
	w.pass(time.Minute)
	r, err := w.Renew(t.Context(), a, g.ID, MinTTL)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Minute+MinTTL), r.ExpiresAt)
	r, err = w.Renew(t.Context(), a, g.ID, 0)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Minute+DefaultTTL), r.ExpiresAt)
	require.Equal(t, []Reservation{r}, w.all())
	_, err = w.Renew(t.Context(), b, g.ID, 0)
	require.ErrorIs(t, err, refusal.NotHolder)
	_, err = w.Renew(t.Context(), a, 99, 0)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	for _, ttl := range []time.Duration{MinTTL - 1, MaxTTL + 1, -1} {
		_, err = w.Renew(t.Context(), a, g.ID, ttl)
		require.ErrorIs(t, err, refusal.BadParams)
	}
}

// What is wrong in itself is refused before the database is asked: here it is
// closed.
func TestWhatIsWrongIsRefusedWithoutTheDatabase(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	w.close()
	many := make([]string, MaxPatterns+1)
	for i := range many {
		many[i] = strings.Repeat("a", i+1)
	}
	for name, c := range map[string]struct {
		change func(*Claim)
		code   refusal.Code
	}{
		"no pattern":        {func(c *Claim) { c.Patterns = nil }, refusal.BadParams},
		"an empty pattern":  {func(c *Claim) { c.Patterns = []string{""} }, refusal.BadParams},
		"too many patterns": {func(c *Claim) { c.Patterns = many }, refusal.OverLimit},
		"long":              {func(c *Claim) { c.Patterns = []string{strings.Repeat("a", 4097)} }, refusal.TooComplex},
		"wildcards":         {func(c *Claim) { c.Patterns = []string{strings.Repeat("*a", 11)} }, refusal.TooComplex},
		"tokens":            {func(c *Claim) { c.Patterns = []string{"{" + strings.Repeat("a,", 26) + "a}"} }, refusal.TooComplex},
		"above the scope":   {func(c *Claim) { c.Patterns = []string{"../x"} }, refusal.BadParams},
		"outside the scope": {func(c *Claim) { c.Patterns = []string{"/srv/other/x"} }, refusal.BadParams},
		"ttl too short":     {func(c *Claim) { c.TTL = MinTTL - 1 }, refusal.BadParams},
		"ttl too long":      {func(c *Claim) { c.TTL = MaxTTL + 1 }, refusal.BadParams},
		"ttl below 0":       {func(c *Claim) { c.TTL = -1 }, refusal.BadParams},
		"wait below 0":      {func(c *Claim) { c.Wait = -1 }, refusal.BadParams},
		"wait too long":     {func(c *Claim) { c.Wait = MaxWait + 1 }, refusal.BadParams},
		"mode":              {func(c *Claim) { c.Mode = "mine" }, refusal.BadParams},
		"reason too long":   {func(c *Claim) { c.Reason = strings.Repeat("a", op.MaxReason+1) }, refusal.BadParams},
		"reason":            {func(c *Claim) { c.Reason = "a\x1b[2J" }, refusal.Malformed},
		"relative path":     {func(c *Claim) { c.Place.Path = "srv/repo" }, refusal.BadParams},
		"empty path":        {func(c *Claim) { c.Place.Path = "" }, refusal.BadParams},
		"unclean path":      {func(c *Claim) { c.Place.Path = "/srv/../repo" }, refusal.BadParams},
		"slash at the end":  {func(c *Claim) { c.Place.Path = "/srv/" }, refusal.BadParams},
		"odd path":          {func(c *Claim) { c.Place.Path = "/srv/\xff" }, refusal.Malformed},
		"control path":      {func(c *Claim) { c.Place.Path = "/srv/a\nb" }, refusal.Malformed},
		"long path":         {func(c *Claim) { c.Place.Path = "/" + strings.Repeat("a", 4096) }, refusal.BadParams},
		"the gate":          {func(c *Claim) { c.By = theGate }, refusal.NotAllowed},
		"a set":             {func(c *Claim) { c.By = op.Requester{Source: op.SourceDesired, Set: "x"} }, refusal.NotAllowed},
		"no registration":   {func(c *Claim) { c.By.Agent = "a" }, refusal.NotHolder},
	} {
		t.Run(name, func(t *testing.T) {
			asked := claim(a, "x")
			c.change(&asked)
			_, _, err := w.Reserve(t.Context(), asked)
			require.ErrorIs(t, err, c.code)
			if c.code == refusal.BadParams {
				require.NotEmpty(t, refusal.As(err).Hint, "else a hint about operations is shown")
			}
		})
	}
	_, _, err := w.Reserve(t.Context(), claim(a, "x"))
	require.ErrorIs(t, err, refusal.Unavailable)
	_, _, err = w.Check(t.Context(), a, repo, make([]string, MaxCheck+1), Exclusive)
	require.ErrorIs(t, err, refusal.OverLimit)
	_, err = w.Register(t.Context(), Place{Path: "x"})
	require.ErrorIs(t, err, refusal.BadParams)
	_, err = w.List(t.Context(), Query{Limit: MaxList + 1})
	require.ErrorIs(t, err, refusal.BadParams)
	_, err = w.Transfer(t.Context(), a, 1, "../x")
	require.ErrorIs(t, err, refusal.Malformed)
}

func TestTheLimitsThemselvesAreAllowed(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	c := claim(a)
	for i := range MaxPatterns {
		c.Patterns = append(c.Patterns, strings.Repeat("a", i+1))
	}
	c.TTL, c.Reason = MaxTTL, strings.Repeat("a", op.MaxReason)
	g := w.reserve(c)
	require.Equal(t, noon.Add(MaxTTL), g.ExpiresAt)
	c.Patterns, c.TTL = []string{strings.Repeat("*a", 10)}, MinTTL
	c.Place = Place{Path: "/" + strings.Repeat("a", 4095), Device: math.MaxUint64, Inode: math.MaxUint64 - 1}
	require.Equal(t, noon.Add(MinTTL), w.reserve(c).ExpiresAt)
	scopes, err := w.Scopes(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.Place, scopes[1].Place, "device and inode are whole")
	w.sound()
}

func TestFiftyAHolderAndScope(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	name := func(i int) string { return strings.Repeat("a", i+1) }
	for i := range MaxPerHolder {
		c := claim(a, name(i))
		c.TTL = time.Hour
		if i == 0 {
			c.TTL = time.Minute
		}
		w.reserve(c)
	}
	w.refused(claim(a, "more"), refusal.OverLimit)
	require.True(t, w.reserve(claim(a, name(1))).Renewed, "no more than before")
	w.reserve(claim(b, "b"))
	elsewhere := claim(a, "more")
	elsewhere.Place.Path = "/srv/other"
	w.reserve(elsewhere)
	_, err := w.Transfer(t.Context(), b, op.ReservationID(MaxPerHolder+1), "a")
	require.ErrorIs(t, err, refusal.OverLimit)
	w.pass(time.Minute) // the first one's time is up
	w.reserve(claim(a, "more"))
	w.sound()
}

func TestCheckGrantsNothing(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	for i := range MaxConflicts + 2 {
		w.reserve(claim(a, strings.Repeat("a", i+1)))
	}
	conflicts, more, err := w.Check(t.Context(), b, Place{Path: repo.Path}, []string{"*"}, "")
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, conflicts, MaxConflicts)
	conflicts, more, err = w.Check(t.Context(), b, Place{Path: repo.Path}, []string{"b", "aaa", "aa"}, Shared)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, conflicts, 2)
	require.Equal(t, []string{"aa", "aaa"}, []string{conflicts[0].Pattern, conflicts[1].Pattern}, "by id")
	for _, who := range []op.Requester{a, {Source: op.SourceAPI, UID: 9}} {
		conflicts, _, err = w.Check(t.Context(), who, Place{Path: "/nowhere"}, []string{"**"}, Exclusive)
		require.NoError(t, err)
		require.Empty(t, conflicts)
	}
	conflicts, _, err = w.Check(t.Context(), a, repo, []string{"**"}, Exclusive)
	require.NoError(t, err)
	require.Empty(t, conflicts, "one's own")
	scopes, err := w.Scopes(t.Context())
	require.NoError(t, err)
	require.Len(t, scopes, 1)
	files := make([]string, MaxCheck)
	for i := range files {
		files[i] = "dir/" + scopeID(int64(i))
	}
	conflicts, _, err = w.Check(t.Context(), b, repo, files, Exclusive)
	require.NoError(t, err)
	require.Empty(t, conflicts)
}

// If it is not known whether a reservation is kept, its holder does not hear that nothing was decided.
func TestAReservationInDoubtIsNotDenied(t *testing.T) {
	w := newWorld(t)
	for err, says := range map[error]string{
		fmt.Errorf("%w: disk full", store.ErrUnavailable):                                              "so nothing was decided",
		fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrKeepInDoubt):                               "it is not known now whether this was decided",
		fmt.Errorf("%w: %w: %w", store.ErrUnavailable, store.ErrKeepInDoubt, context.DeadlineExceeded): "it is not known now whether this was decided",
	} {
		refused := w.shown(err)
		require.ErrorIs(t, refused, refusal.Unavailable)
		require.ErrorContains(t, refused, says)
	}
}
