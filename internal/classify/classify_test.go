package classify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/classify"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

var (
	now     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	builder = op.Requester{Source: op.SourceAPI, UID: 1000, Agent: "builder"}
	theGate = op.Requester{Source: op.SourceGate}
	web     = op.Target{Kind: "guest", Name: "web"}
)

// scratch is the destroy of a live scratch guest by its creator. It is benign, and
// any one change makes it destructive.
func scratch() classify.Input {
	p := policy.Default()
	p.Commands = []string{"web"}
	return classify.Input{
		Step:      op.Step{ID: op.StepID{Job: 9, Index: 1}, Op: "guest.destroy", Target: web, Incarnation: "i1", Params: op.Params{}},
		Requester: builder,
		Observed:  op.Observed{Target: web, Present: true, Incarnation: "i1", Storage: []op.StorageID{"data:1"}, Content: "nothing"},
		Provenance: &op.Provenance{Incarnation: "i1", Target: web, Creator: "agent:builder", Agent: "builder", Job: 7, Scratch: true,
			CreatedAt: now.Add(-time.Hour), ScratchUntil: now.Add(time.Hour),
			Content: "nothing", Storage: []op.StorageOrigin{{ID: "data:1", Job: 7}}},
		Policy: p,
		Now:    now,
	}
}

// compensation is the destroy that takes back what the same job made.
func compensation() classify.Input {
	in := scratch()
	in.Requester = theGate
	in.Step.ID.Job, in.Step.ID.Index, in.Step.Undoes = 7, 3, 1
	in.Provenance.Scratch, in.Provenance.ScratchUntil = false, time.Time{}
	return in
}

// step is any step on a guest of which this gate has no record.
func step(name string, params op.Params) classify.Input {
	in := scratch()
	in.Step.Op, in.Step.Params, in.Provenance = name, params, nil
	return in
}

type row struct {
	in     classify.Input
	change func(*classify.Input)
	rule   string
	class  op.Class
}

func (r row) check(t *testing.T) {
	t.Helper()
	if r.change != nil {
		r.change(&r.in)
	}
	v := must.Get(classify.Classify(r.in))(t)
	require.Equal(t, r.rule, v.Rule)
	require.Equal(t, r.class, v.Class)
	require.NotEmpty(t, v.Why)
}

func TestLiveScratchAndItsNeighbours(t *testing.T) {
	for name, r := range map[string]row{
		"its creator":          {scratch(), nil, "live-scratch", op.Benign},
		"the gate":             {scratch(), func(in *classify.Input) { in.Requester = theGate }, "destroy-unproven", op.Destructive},
		"used by another job":  {scratch(), func(in *classify.Input) { in.Provenance.Used = "another job" }, "live-scratch", op.Benign},
		"filled by itself":     {scratch(), func(in *classify.Input) { in.Observed.Content = "" }, "live-scratch", op.Benign},
		"another agent":        {scratch(), func(in *classify.Input) { in.Requester.Agent = "other" }, "destroy-unproven", op.Destructive},
		"P18: its bare uid":    {scratch(), func(in *classify.Input) { in.Requester.Agent = "" }, "destroy-unproven", op.Destructive},
		"made by a bare uid":   {scratch(), func(in *classify.Input) { in.Requester.Agent, in.Provenance.Agent = "", "" }, "destroy-unproven", op.Destructive},
		"from desired state":   {scratch(), func(in *classify.Input) { in.Requester.Source = op.SourceDesired }, "destroy-unproven", op.Destructive},
		"signed offline":       {scratch(), func(in *classify.Input) { in.Requester.Source = op.SourceOffline }, "destroy-unproven", op.Destructive},
		"P04: not scratch":     {scratch(), func(in *classify.Input) { in.Provenance.Scratch = false }, "destroy-unproven", op.Destructive},
		"P03: ended":           {scratch(), func(in *classify.Input) { in.Provenance.ScratchEnded = "adopted" }, "destroy-unproven", op.Destructive},
		"the last moment":      {scratch(), func(in *classify.Input) { in.Now = in.Provenance.ScratchUntil.Add(-1) }, "live-scratch", op.Benign},
		"P03: at its end":      {scratch(), func(in *classify.Input) { in.Now = in.Provenance.ScratchUntil }, "destroy-unproven", op.Destructive},
		"P03: after":           {scratch(), func(in *classify.Input) { in.Now = in.Provenance.ScratchUntil.Add(1) }, "destroy-unproven", op.Destructive},
		"a stricter policy":    {scratch(), func(in *classify.Input) { in.Policy.ScratchMaxAge = time.Hour }, "destroy-unproven", op.Destructive},
		"just within it":       {scratch(), func(in *classify.Input) { in.Policy.ScratchMaxAge = time.Hour + 1 }, "live-scratch", op.Benign},
		"no scratch any more":  {scratch(), func(in *classify.Input) { in.Policy.ScratchMaxAge = 0 }, "destroy-unproven", op.Destructive},
		"a clock in doubt":     {scratch(), func(in *classify.Input) { in.Doubt = true }, "destroy-unproven", op.Destructive},
		"P14, P16: other disk": {scratch(), func(in *classify.Input) { in.Observed.Storage = append(in.Observed.Storage, "disk:2") }, "destroy-unproven", op.Destructive},
		"P16: another disk":    {scratch(), func(in *classify.Input) { in.Observed.Storage[0] = "disk:2" }, "destroy-unproven", op.Destructive},
		"P02: no provenance":   {scratch(), func(in *classify.Input) { in.Provenance = nil }, "destroy-unproven", op.Destructive},
		"P06: protected":       {scratch(), func(in *classify.Input) { in.Observed.Protected = true }, "protected", op.Destructive},
		"a dependent":          {scratch(), func(in *classify.Input) { in.Observed.Dependent = []op.Target{{Kind: "guest", Name: "db"}} }, "cascade", op.Destructive},
		"wipe":                 {scratch(), func(in *classify.Input) { in.Step.Op = "guest.wipe" }, "live-scratch", op.Benign},
		"wipe by another":      {scratch(), func(in *classify.Input) { in.Step.Op, in.Requester.Agent = "guest.wipe", "other" }, "wipe", op.Destructive},
		"restore":              {scratch(), func(in *classify.Input) { in.Step.Op = "guest.restore" }, "live-scratch", op.Benign},
		"restore by another":   {scratch(), func(in *classify.Input) { in.Step.Op, in.Requester.Agent = "guest.restore", "other" }, "restore-over", op.Destructive},
		"its snapshot":         {scratch(), func(in *classify.Input) { in.Step.Op = "guest.snapshot-delete" }, "snapshot-delete", op.Destructive},
	} {
		t.Run(name, r.check)
	}
}

func TestCompensationAndItsNeighbours(t *testing.T) {
	for name, r := range map[string]row{
		"its own work":     {compensation(), nil, "undo-own-work", op.Benign},
		"not the gate":     {compensation(), func(in *classify.Input) { in.Requester = builder }, "destroy-unproven", op.Destructive},
		"no compensation":  {compensation(), func(in *classify.Input) { in.Step.Undoes = 0 }, "destroy-unproven", op.Destructive},
		"another job's":    {compensation(), func(in *classify.Input) { in.Provenance.Job = 6 }, "destroy-unproven", op.Destructive},
		"another job's id": {compensation(), func(in *classify.Input) { in.Step.ID.Job = 8 }, "destroy-unproven", op.Destructive},
		"other's disk":     {compensation(), func(in *classify.Input) { in.Provenance.Storage[0].Job = 6 }, "destroy-unproven", op.Destructive},
		"unknown disk":     {compensation(), func(in *classify.Input) { in.Observed.Storage = append(in.Observed.Storage, "x") }, "destroy-unproven", op.Destructive},
		"used":             {compensation(), func(in *classify.Input) { in.Provenance.Used = "its program was started" }, "destroy-unproven", op.Destructive},
		"written into":     {compensation(), func(in *classify.Input) { in.Observed.Content = "other" }, "destroy-unproven", op.Destructive},
		"not to be seen":   {compensation(), func(in *classify.Input) { in.Observed.Content = "" }, "destroy-unproven", op.Destructive},
		"never to be seen": {compensation(), func(in *classify.Input) { in.Observed.Content, in.Provenance.Content = "", "" },
			"destroy-unproven", op.Destructive},
		"its scratch, used": {compensation(), func(in *classify.Input) { in.Provenance.Scratch, in.Provenance.Used = true, "another job" },
			"destroy-unproven", op.Destructive},
		"promoted":          {compensation(), func(in *classify.Input) { in.Provenance.ScratchEnded = "adopted" }, "destroy-unproven", op.Destructive},
		"protected":         {compensation(), func(in *classify.Input) { in.Observed.Protected = true }, "protected", op.Destructive},
		"the last moment":   {compensation(), func(in *classify.Input) { in.Now = in.Provenance.CreatedAt.Add(policy.ScratchMaxAge - 1) }, "undo-own-work", op.Benign},
		"too old":           {compensation(), func(in *classify.Input) { in.Now = in.Provenance.CreatedAt.Add(policy.ScratchMaxAge) }, "destroy-unproven", op.Destructive},
		"a clock in doubt":  {compensation(), func(in *classify.Input) { in.Doubt = true }, "destroy-unproven", op.Destructive},
		"not made by it":    {compensation(), func(in *classify.Input) { in.Provenance = nil }, "destroy-unproven", op.Destructive},
		"a wipe is no undo": {compensation(), func(in *classify.Input) { in.Step.Op = "guest.wipe" }, "wipe", op.Destructive},
		"nor a restore":     {compensation(), func(in *classify.Input) { in.Step.Op = "guest.restore" }, "restore-over", op.Destructive},
	} {
		t.Run(name, r.check)
	}
}

func TestEveryOperation(t *testing.T) {
	labelled := func(in *classify.Input) { in.Observed.Labels = map[string]string{"tier": "prod", "z": "1"} }
	protected := func(in *classify.Input) { in.Observed.Protected = true }
	volatile := func(in *classify.Input) { in.Observed.Volatile = true }
	holding := func(in *classify.Input) { in.Observed.MemoryUsed = 100 }
	both := func(in *classify.Input) { in.Observed.Shares = []string{"vda, which guest db uses as well"} }
	running := func(in *classify.Input) { both(in); in.Observed.Running = op.Running }
	ofScope := func(in *classify.Input) { in.Observed.Target = op.Target{Kind: op.KindScope, Name: "s3"} }
	labels := func(kv ...string) op.Params {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return op.Params{"labels": m}
	}
	for name, r := range map[string]row{
		"create":                {step("guest.create", op.Params{"memory": int64(1)}), nil, "create-new", op.Benign},
		"undelete":              {step("guest.undelete", op.Params{}), nil, "undelete", op.Benign},
		"start":                 {step("guest.start", op.Params{}), nil, "start", op.Benign},
		"snapshot":              {step("guest.snapshot", op.Params{"snapshot": "s"}), protected, "snapshot", op.Benign},
		"stop":                  {step("guest.stop", op.Params{}), protected, "stop", op.Benign},
		"restart":               {step("guest.restart", op.Params{}), nil, "stop", op.Benign},
		"P17: stop volatile":    {step("guest.stop", op.Params{}), volatile, "stop-volatile", op.Destructive},
		"P17: restart volatile": {step("guest.restart", op.Params{}), volatile, "stop-volatile", op.Destructive},
		"start volatile":        {step("guest.start", op.Params{}), volatile, "start", op.Benign},
		"start shared":          {step("guest.start", op.Params{}), both, "start-shared", op.Destructive},
		"restart shared":        {step("guest.restart", op.Params{}), both, "start-shared", op.Destructive},
		"restart that runs":     {step("guest.restart", op.Params{}), running, "start-shared", op.Destructive},
		"start that runs":       {step("guest.start", op.Params{}), running, "start", op.Benign},
		"memory":                {step("guest.set-config", op.Params{"memory": int64(1)}), protected, "config-no-loss", op.Benign},
		"memory in use":         {step("guest.set-config", op.Params{"memory": int64(99)}), holding, "memory-in-use", op.Destructive},
		"memory beyond the use": {step("guest.set-config", op.Params{"memory": int64(100)}), holding, "config-no-loss", op.Benign},
		"cpus beside memory":    {step("guest.set-config", op.Params{"cpus": int64(1)}), holding, "config-no-loss", op.Benign},
		"no fields":             {step("guest.set-config", op.Params{}), protected, "config-no-loss", op.Benign},
		"protect":               {step("guest.set-config", op.Params{"protected": true}), nil, "config-no-loss", op.Benign},
		"protect again":         {step("guest.set-config", op.Params{"protected": true}), protected, "config-no-loss", op.Benign},
		"unprotected already":   {step("guest.set-config", op.Params{"protected": false}), nil, "config-no-loss", op.Benign},
		"P06: unprotect":        {step("guest.set-config", op.Params{"protected": false}), protected, "unprotect", op.Destructive},
		"unprotect and more":    {step("guest.set-config", op.Params{"protected": false, "memory": int64(1)}), protected, "unprotect", op.Destructive},
		"a label more":          {step("guest.set-config", labels("tier", "prod", "z", "1", "new", "x")), labelled, "config-no-loss", op.Benign},
		"the same labels":       {step("guest.set-config", labels("tier", "prod", "z", "1")), labelled, "config-no-loss", op.Benign},
		"P06: a label less":     {step("guest.set-config", labels("tier", "prod")), labelled, "label-removed", op.Destructive},
		"P06: another value":    {step("guest.set-config", labels("tier", "dev", "z", "1")), labelled, "label-removed", op.Destructive},
		"P06: no labels":        {step("guest.set-config", labels()), labelled, "label-removed", op.Destructive},
		"labels unsaid":         {step("guest.set-config", op.Params{"cpus": int64(1)}), labelled, "config-no-loss", op.Benign},
		"P07: wipe":             {step("guest.wipe", op.Params{}), nil, "wipe", op.Destructive},
		"P07: restore":          {step("guest.restore", op.Params{"snapshot": "s"}), nil, "restore-over", op.Destructive},
		"P07: snapshot-delete":  {step("guest.snapshot-delete", op.Params{"snapshot": "s"}), nil, "snapshot-delete", op.Destructive},
		"destroy":               {step("guest.destroy", op.Params{}), nil, "destroy-unproven", op.Destructive},
		"rotation":              {step(op.Rotate, op.Params{"epoch": int64(2)}), func(in *classify.Input) { in.Observed.Target = op.Signers }, "trust-rotation", op.Destructive},
		"P08: unknown":          {step("guest.frobnicate", op.Params{}), nil, "anything-else", op.Destructive},
		"P08: other case":       {step("guest.Start", op.Params{}), nil, "anything-else", op.Destructive},
		"P08: empty":            {step("", op.Params{}), nil, "anything-else", op.Destructive},
		"release-all":           {step(op.ReleaseAll, op.Params{}), ofScope, "takes-reservations", op.Destructive},
		"of what is empty":      {step(op.ReleaseAll, op.Params{}), nil, "takes-reservations", op.Destructive},
		"force-transfer":        {step(op.ForceTransfer, op.Params{"reservation": "r12", "to": "b"}), ofScope, "takes-reservations", op.Destructive},
		"other verb":            {step("scope.release", op.Params{}), ofScope, "anything-else", op.Destructive},
		"other kind":            {step("volume.run", op.Params{}), nil, "anything-else", op.Destructive},
		"disk-create":           {step("guest.disk-create", op.Params{"disk": "vdb", "size": int64(1)}), nil, "disk-new", op.Benign},
		"disk grows":            {step("guest.disk-resize", op.Params{"disk": "vda", "size": int64(3)}), withDisk, "disk-grow", op.Benign},
		"disk stays":            {step("guest.disk-resize", op.Params{"disk": "vda", "size": int64(2)}), withDisk, "disk-grow", op.Benign},
		"P07: shrink":           {step("guest.disk-resize", op.Params{"disk": "vda", "size": int64(1)}), withDisk, "disk-shrink", op.Destructive},
		"half a MiB too small":  {step("guest.disk-resize", op.Params{"disk": "vdb", "size": int64(1)}), withDisk, "disk-shrink", op.Destructive},
		"of an unknown disk":    {step("guest.disk-resize", op.Params{"disk": "vdc", "size": int64(9)}), withDisk, "disk-shrink", op.Destructive},
		"of unknown size":       {step("guest.disk-resize", op.Params{"disk": "vdd", "size": int64(9)}), withDisk, "disk-shrink", op.Destructive},
		"P07: detach":           {step("guest.disk-detach", op.Params{"disk": "vda"}), withDisk, "disk-detach", op.Destructive},
		"P07: disk-delete":      {step("guest.disk-delete", op.Params{"disk": "vda"}), withDisk, "disk-delete", op.Destructive},
		"P07: disk-wipe":        {step("guest.disk-wipe", op.Params{"disk": "vda"}), withDisk, "disk-wipe", op.Destructive},
		"backup":                {step("guest.backup", op.Params{}), nil, "backup", op.Benign},
		"P17: backup prunes":    {step("guest.backup", op.Params{"rotate": true}), nil, "backup-prunes", op.Destructive},
		"backup-restore":        {step("guest.backup-restore", op.Params{"backup": "b"}), nil, "backup-restore", op.Destructive},
		"backup-delete":         {step("guest.backup-delete", op.Params{"backup": "b"}), nil, "backup-delete", op.Destructive},
		"clone":                 {step("guest.clone", op.Params{"from": "web-1"}), nil, "clone", op.Benign},
		"a command":             {step(op.Run, op.Params{}), ofCommand, "command", op.Destructive},
		"a harmless command":    {step(op.Run, op.Params{}), harmless("tidy"), "command-benign", op.Benign},
		"another is harmless":   {step(op.Run, op.Params{}), harmless("tidy2"), "command", op.Destructive},
	} {
		t.Run(name, r.check)
	}
}

func withDisk(in *classify.Input) {
	in.Observed.Disks = []op.Disk{{Name: "vda", Size: 2 << 20}, {Name: "vdb", Size: 3 << 19}, {Name: "vdd"}}
}

func ofCommand(in *classify.Input) {
	in.Step.Target = op.Target{Kind: op.KindCommand, Name: "tidy"}
	in.Observed.Target = in.Step.Target
}

func harmless(name string) func(*classify.Input) {
	return func(in *classify.Input) {
		ofCommand(in)
		in.Policy.Benign = []string{name}
	}
}

// TestCatalogueHasRules fails for a new operation without a rule.
func TestCatalogueHasRules(t *testing.T) {
	for _, spec := range op.Catalogue() {
		v := must.Get(classify.Classify(step(spec.Name, op.Params{})))(t)
		require.NotEqual(t, "anything-else", v.Rule, spec.Name)
	}
}

// TestNoReservationIsTakenUnsigned: not by the gate, by root, by the holder of all
// of them, or by the maker of the incarnation.
func TestNoReservationIsTakenUnsigned(t *testing.T) {
	for _, name := range []string{op.ReleaseAll, op.ForceTransfer} {
		for _, by := range []op.Requester{theGate, builder, {Source: op.SourceAPI}, {Source: op.SourceDesired, Set: "hub"}, {Source: op.SourceOffline}} {
			in := scratch()
			in.Step.Op, in.Requester = name, by
			v := must.Get(classify.Classify(in))(t)
			require.Equal(t, op.Destructive, v.Class, "%s by %s", name, by)
		}
		in := compensation()
		in.Step.Op = name
		v := must.Get(classify.Classify(in))(t)
		require.Equal(t, op.Destructive, v.Class, "%s as a compensation", name)
	}
}

// TestCommandIsTheOperators is P13: a command that the configuration does not name
// never runs, with any signature and any provenance.
func TestCommandIsTheOperators(t *testing.T) {
	for _, name := range []string{"guest.create", "guest.set-config"} {
		in := step(name, op.Params{"command": "web"})
		must.Get(classify.Classify(in))(t)
		in.Step.Params = op.Params{"command": "evil"}
		must.Fail(classify.Classify(in))(t, refusal.NotAllowed)
		in.Step.Params = op.Params{"command": "web"}
		in.Policy.Commands = nil
		must.Fail(classify.Classify(in))(t, refusal.NotAllowed)
		in.Step.Params = op.Params{"command": ""}
		must.Get(classify.Classify(in))(t, "a step without a command needs no entry")
	}
}
