package cli

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

var tuesday = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

func window(t *testing.T, text string) op.Window { return must.Get(op.ParseWindow(text))(t) }

func two() api.Request {
	return api.Request{ID: "j3.1", State: op.StatePending,
		Signatures: []api.Signature{
			{Principal: "alice@example.com", Role: op.Operational, Fingerprint: "SHA256:a", Touch: op.TouchPresent},
			{Principal: "x\x1b[2J", Role: "manager", Fingerprint: "SHA256:b", CA: "SHA256:c", Touch: op.TouchVerified}},
		Demands: []api.Demand{
			{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 1, Have: 1},
			{Rule: "gated.yaml:14", Roles: []op.Role{op.Operational}, Threshold: 2, Have: 1, Touch: op.TouchPresent,
				Could: []string{"bob@example.com", "carol@example.com"}},
			{Rule: "gated.yaml:20", Roles: []op.Role{"manager", op.Coordination}, Threshold: 0, Touch: op.TouchVerified},
			{Rule: "built-in", Way: op.WayRecovery, Roles: []op.Role{op.Recovery}, Threshold: 1, Could: []string{"dave@example.com"}}}}
}

func TestWhoSignedAndWhoIsNeeded(t *testing.T) {
	require.Equal(t, "signed: alice@example.com as operational (SHA256:a), touched\n"+
		"signed: \"x\\x1b[2J\" as manager (SHA256:b, certified by SHA256:c), touched and verified\n", Signed(two()))
	require.Equal(t, "", ofBatch(nil))
	b := must.Get(op.Batch{Role: op.Operational, Count: 7, IssuedAt: tuesday, ExpiresAt: tuesday.Add(time.Minute)}.Encode())(t)
	over := api.Request{Signatures: two().Signatures[:1]}
	over.Signatures[0].Batch = &api.Batched{Payload: base64.StdEncoding.EncodeToString(b)}
	require.Equal(t, "signed: alice@example.com as operational (SHA256:a), touched, in a batch of 7\n", Signed(over))
	for _, bad := range []string{"", "e30=", "?"} {
		require.Equal(t, ", in a batch that cannot be read", ofBatch(&api.Batched{Payload: bad}))
	}
	require.Equal(t, "needs 1 more as operational: bob@example.com, carol@example.com (rule gated.yaml:14, security key with a touch)\n"+
		"needs 1 more as manager or coordination: no listed signer could (rule gated.yaml:20, security key with a touch and a PIN or fingerprint)\n"+
		"or recovery alone: 1 more as recovery: dave@example.com (built-in rule)\n", Needed(two()))
	require.Equal(t, "1 operational (bob@example.com, carol@example.com), 1 manager or coordination", Waiting(two(), tuesday))
	require.Equal(t, []op.Role{op.Operational, "manager", op.Coordination}, OpenRoles(two()))

	alone := two()
	alone.Demands[3].Could = nil
	require.NotContains(t, Needed(alone), "recovery", "there are no recovery keys")
	require.Contains(t, Needed(alone), "needs 1 more as manager or coordination: no listed signer could")

	few := two()
	few.Demands[1].Threshold = 4
	require.Contains(t, Needed(few), "needs 3 more as operational: bob@example.com, carol@example.com, and nobody else could (rule ")
	few.Demands[1].Could = []string{"*@example.com (certificate)"}
	require.NotContains(t, Needed(few), "nobody else")

	done := two()
	done.State = op.StateSucceeded
	require.Empty(t, Needed(done))
	require.Equal(t, "nothing", Waiting(done, tuesday))
}

func TestWhoIsNeededWhereOneWayIsMet(t *testing.T) {
	r := two()
	r.Demands[3].Have = 1
	require.Empty(t, Needed(r), "recovery alone is enough")
	require.Empty(t, OpenRoles(r))

	r.Owed = []string{"SHA256:new operational", "odd\n"}
	require.Equal(t, "the new key SHA256:new still has to sign as operational (its holder: opsign approve j3.1 --role operational --key FILE)\n"+
		"a new key still has to sign: \"odd\\n\"\n", Needed(r))
	require.Equal(t, "2 by new keys", Waiting(r, tuesday))

	only := api.Request{State: op.StatePending, Demands: []api.Demand{
		{Rule: "built-in", Way: op.WayRecovery, Roles: []op.Role{op.Recovery}, Threshold: 1, Could: []string{"dave"}}}}
	require.Equal(t, "needs 1 more as recovery: dave (built-in rule)\n", Needed(only))
	require.Equal(t, []op.Role{op.Recovery}, OpenRoles(only))
}

func TestWhenItRuns(t *testing.T) {
	waits := two()
	require.Empty(t, Delays(waits, tuesday))
	waits.CoolOff = 600
	waits.Windows = []op.Window{window(t, "mon-fri 08:00-18:00Z"), window(t, "22:00-20:00Z")}
	require.Equal(t, "after the last signature it cools off for 10m; any operator can stop it by: opsign reject j3.1 --reason TEXT\n"+
		"runs only mon-fri 08:00-18:00Z and only 22:00-20:00Z\n", Delays(waits, tuesday))

	cools := api.Request{ID: "j3.1", State: op.StateAuthorized, CoolOff: 600, ExpiresAt: tuesday.Add(72 * time.Hour)}
	require.False(t, Delayed(cools, tuesday), "nothing is authorized")
	over := tuesday.Add(10 * time.Minute)
	cools.AuthorizedAt, cools.RunsAt = &tuesday, &over
	require.True(t, Delayed(cools, tuesday))
	require.True(t, Delayed(cools, over), "clocks differ")
	require.False(t, Delayed(cools, over.Add(clockSkew)))
	require.Equal(t, "authorized; runs at 2026-03-03T12:10:00Z\n"+
		"any operator can stop it until then by: opsign reject j3.1 --reason TEXT\n", Delays(cools, tuesday))
	require.Equal(t, "cools off until 2026-03-03T12:10:00Z", Waiting(cools, tuesday))
	require.Empty(t, Delays(cools, over.Add(time.Hour)))

	cools.Windows = []op.Window{window(t, "wed 08:30-18:00Z")}
	require.Equal(t, "authorized; runs at 2026-03-04T08:30:00Z\nruns only wed 08:30-18:00Z\n"+
		"any operator can stop it until then by: opsign reject j3.1 --reason TEXT\n", Delays(cools, tuesday))
	require.Equal(t, "waits for its window at 2026-03-04T08:30:00Z", Waiting(cools, tuesday))
	cools.ExpiresAt = tuesday.Add(time.Hour)
	require.Contains(t, Delays(cools, tuesday), "expires at 2026-03-03T13:00:00Z, before it could run at 2026-03-04T08:30:00Z")
	cools.Windows = append(cools.Windows, window(t, "sun 08:00-18:00Z"))
	require.Contains(t, Delays(cools, tuesday), "it will not run; stop it by: opsign reject j3.1")
	require.True(t, Runs(cools, tuesday).IsZero())

	open := api.Request{State: op.StateAuthorized, RunsAt: &tuesday, Windows: []op.Window{window(t, "08:00-18:00Z")}}
	require.False(t, Delayed(open, tuesday), "its window is open and nothing cools off")
	require.Equal(t, tuesday.Add(time.Hour), Runs(open, tuesday.Add(time.Hour)), "a window is asked of now")
	require.True(t, Delayed(open, tuesday.Add(12*time.Hour)))
	open.State = op.StateDispatched
	require.Empty(t, Delays(open, tuesday.Add(12*time.Hour)))
}

func TestSpan(t *testing.T) {
	for want, d := range map[string]time.Duration{"45s": 45 * time.Second, "10m": 10 * time.Minute, "1m30s": 90 * time.Second,
		"1h": time.Hour, "1h30m": 90 * time.Minute, "24h": 24*time.Hour + 20*time.Second, "0s": 0, "20h10m": 20*time.Hour + 10*time.Minute,
		"10h": 10 * time.Hour} {
		require.Equal(t, want, Span(d))
	}
	require.False(t, strings.Contains(Span(time.Hour+time.Second), "s"))
}

// A step that the built-in rules let run waits because of the configuration, and no
// line says that a built-in rule asks.
func TestNeededByARuleAlone(t *testing.T) {
	r := api.Request{State: op.StatePending, Rule: op.SignedByRule, Demands: []api.Demand{
		{Rule: op.BuiltIn, Roles: []op.Role{op.Operational}, Threshold: 1, Could: []string{"alice"}}}}
	require.Equal(t, "needs 1 more as operational: alice (a rule of the configuration)\n", Needed(r))
	require.Equal(t, "1 operational (alice), asked for by a rule", Waiting(r, time.Time{}))
	r.Rule = "stop-volatile"
	require.Equal(t, "needs 1 more as operational: alice (built-in rule)\n", Needed(r))
	require.Equal(t, "1 operational (alice)", Waiting(r, time.Time{}))
}

// TestALineToTypeIsOneCommand: whatever a gate or a hub says, a shell reads no other command in a line that people copy.
func TestALineToTypeIsOneCommand(t *testing.T) {
	for _, odd := range []string{"j1.1;reboot", "$(reboot)", "`reboot`", "j1.1 -y", "--yes", "a>b", "a&b", "a|b", "a'b", `a"b`, "a\\b", "a\nb", "~", "*", "#", "!x", ""} {
		r := two()
		r.ID, r.Owed, r.CoolOff = odd, []string{"SHA256:new " + odd}, 60
		require.Contains(t, Needed(r), "(its holder: opsign approve ID --role ROLE --key FILE)\n", odd)
		require.Contains(t, Delays(r, tuesday), "opsign reject ID --reason TEXT\n", odd)
		later := tuesday.Add(time.Minute)
		r.State, r.RunsAt, r.ExpiresAt = op.StateAuthorized, &later, later.Add(time.Hour)
		require.Contains(t, Delays(r, tuesday), "opsign reject ID --reason TEXT\n", odd)
		require.Equal(t, "JOB", Typed(odd, "JOB"), odd)
	}
	require.Equal(t, "j12.1", Typed("j12.1", "ID"))
}
