package promise

const (
	keys      = "internal/authz/securitykey.go"
	rotation  = "internal/authz/rotation.go"
	dial      = "client/dial.go"
	asks      = "internal/people/policy/requirement.go"
	identity  = "internal/host/state/identity.go"
	restore   = "internal/host/life/restore.go"
	localLook = "internal/driver/local/observe.go"
	rejects   = "internal/log/journal/rejections.go"
	rules     = "internal/people/policy/rule.go"
	registers = "internal/agents/agent/register.go"
	guarded   = "internal/driver/proxmox/guarded.go"
)

var scenarios = []Promise{
	{"scenario 3", "a name that was made again by others is nobody's scratch", []string{"P02"}, []Fault{
		{Shows: "ACCEPTED: a scratch guest destroyed out of band", Edits: []Edit{
			{"internal/gate/plan.go", `	prov, err := journal.ReadProvenance(tx, o.Incarnation)
	if err != nil {`, `	prov, err := journal.ReadProvenance(tx, o.Incarnation)
	if err == nil && prov == nil && o.Present {
		var last op.Incarnation
		if tx.QueryRow("SELECT incarnation FROM incarnations WHERE kind = ? AND name = ? ORDER BY created_at DESC", o.Target.Kind, o.Target.Name).Scan(&last) == nil {
			prov, err = journal.ReadProvenance(tx, last)
		}
	}
	if err != nil {`},
			{"internal/base/op/rule.go", `c.Now.Before(p.ScratchUntil) && c.young() &&
		p.Made(c.Observed.Storage, 0) &&`, `c.Now.Before(p.ScratchUntil) && c.young() &&`},
		}},
	}},
	{"scenario 4", "a signature from before a restore does not count", []string{"T03c", "X65"}, []Fault{
		{Shows: `"target_mismatch" in chain but got nil`, Edits: []Edit{
			{restore, `id := state.Identity{Gate: state.NewGateID(), Host: c.Host}`, `id := state.Identity{Host: c.Host}
	if err := reading(ctx, dir, func(s *store.Store) error {
		return s.View(ctx, func(tx *store.Tx) error { return tx.QueryRow("SELECT gate FROM gate_identity").Scan(&id.Gate) })
	}); err != nil {
		id.Gate = state.NewGateID()
	}`}}},
		{Finds: []string{"X65"}, Shows: `"target_mismatch" in chain but got nil`, Edits: []Edit{
			{restore, `id := state.Identity{Gate: state.NewGateID(), Host: c.Host}`, `id := state.Identity{Gate: state.NewGateID(), Host: c.Host}
	if b, err := os.ReadFile(o.File); err == nil {
		id.Gate = op.GateID(op.SHA256(b)[:32])
	}`},
			{restore, `	"gated/internal/base/refusal"
`, `	"gated/internal/base/op"
	"gated/internal/base/refusal"
`}}},
	}},
	{"scenario 5", "a target that was made again is another one", []string{"B07", "B08"}, []Fault{
		// A program whose bytes changed is another one by its incarnation, too.
		{Also: []string{"B20c", "B20d"}, Shows: "ACCEPTED: the target is destroyed and made again, between signing", Edits: []Edit{
			{approve, `	switch {
	case o.Incarnation != s.Incarnation:`, `	switch {
	case (o.Incarnation == "") != (s.Incarnation == ""):`},
			{localLook, `p["name"], p["incarnation"] = g.name, string(g.incarnation())
	p["storage"], p["snapshots"] = storage, snapshots`, `p["name"] = g.name
	p["storage"], p["snapshots"] = int64(len(storage)), snapshots`},
			{"internal/driver/driver.go", `step.Incarnation != "" && step.Incarnation != now.Incarnation:`, `step.Incarnation != "" && now.Incarnation == "":`},
		}},
	}},
	{"scenario 6", "a target that changed after the approval is left alone", []string{"B09b", "B09d"}, []Fault{
		{Shows: `actual  : "succeeded"`, Edits: []Edit{{permit, `if err := stale(s, now); err != nil {`, `if err := stale(s, now); err != nil && gone(s, now) {`}}},
	}},
	{"scenario 8", "while nobody knows who is revoked, no signature counts", []string{"S14j", "S23e"}, []Fault{
		{Shows: "ACCEPTED: a revocation file with a line that is none", Edits: []Edit{{revoked, `	if err := t.Blocked(); err != nil {
		return err
	}
	switch {`, `	switch {`}}},
	}},
	{"scenario 10", "while the clock is not believed, signed work waits", []string{"T15a", "T15b"}, []Fault{
		{Finds: []string{"T15a"}, Shows: "ACCEPTED: the clock jumps 70 years ahead", Edits: []Edit{{approve, `if !moment.Trusted {`, `if moment.Now.IsZero() {`}}},
		{Finds: []string{"T15b"}, Shows: `actual  : "succeeded"`, Edits: []Edit{{permit, `if !moment.Trusted {`, `if moment.Now.IsZero() {`}}},
	}},
	{"scenario 11", "one daemon works on a state at a time, and one gate on a directory of guests", []string{"H06", "X26", "X05b"}, []Fault{
		{Shows: "Should not be: true", Edits: []Edit{
			{"internal/host/state/lock.go", `	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)`, `	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)`},
			{"internal/driver/local/driver.go", `unix.LOCK_EX|unix.LOCK_NB) != nil {`, `unix.LOCK_SH|unix.LOCK_NB) != nil {`}}},
		{Finds: []string{"X05b"}, Shows: "ACCEPTED: a second gate, with operators of its own", Edits: []Edit{
			{"internal/driver/local/driver.go", `unix.LOCK_EX|unix.LOCK_NB) != nil {`, `unix.LOCK_SH|unix.LOCK_NB) != nil {`}}},
	}},
	{"scenario 13", "the gate does not start on a copy of its state", []string{"T14a", "T14b"}, []Fault{
		{Shows: "ACCEPTED: an old copy of the database", Edits: []Edit{
			{identity, `if bound.file.Inode != have.file.Inode {`, `if bound.file.Inode == 0 {`},
			{identity, `bound.file.Birth != 0 && bound.file.Birth != have.file.Birth`, `bound.file.Birth != 0 && have.file.Birth == 0`},
		}},
	}},
	{"scenario 15", "a client does not talk to a stranger's socket", []string{"H12a", "H12b"}, []Fault{
		{Finds: []string{"H12a"}, Shows: `does not contain "64321"`, Edits: []Edit{{dial, `!ok || !c.trusted[st.Uid] {`, `!ok {`}}},
		{Finds: []string{"H12b"}, Shows: "somebody talked to a stranger", Edits: []Edit{{dial, `	if !c.trusted[uid] {`, `	if !c.trusted[uid] && pid == 0 {`}}},
	}},
	{"scenario 17", "an operator's witness refuses a log that does not go on from its head", []string{"TestEveryContradiction", "TestALogThatWasMadeAnew"}, []Fault{
		{Shows: `"binding_mismatch" in chain but got nil`, Edits: []Edit{{"internal/log/witness/record.go", `is.Size == was.Size && is.Root != was.Root:`, `is.Size == was.Size && is.Gate != was.Gate:`}}},
		{Finds: []string{"TestEveryContradiction"}, Shows: "a_proof_that_cannot_be_read", Edits: []Edit{{"internal/log/witness/check.go",
			`return err == nil && was.Continues(is, proof) == nil, nil`, `return err != nil || was.Continues(is, proof) == nil, nil`}}},
	}},
	{"scenario 18", "to list another person takes as many people as a rule asks for", []string{"S22i"}, []Fault{
		{Shows: "ACCEPTED: a rotation of operators where some destroy takes two", Edits: []Edit{{asks, `			asked.Demands = append(asked.Demands, r.demand(signers(s.Spec, w.Name)...))
			if !role.BuiltIn() {`, `			if !role.BuiltIn() {`}}},
	}},
	{"scenario 19", "a rule finds its label, whatever its value is", []string{"X86a", "X86b"}, []Fault{
		{Finds: []string{"X86a"}, Shows: "ACCEPTED: a rule looks for a label with any value", Edits: []Edit{{rules, `if !ok || !match(pattern, v) {`, `if !ok || v == "" || !match(pattern, v) {`}}},
		{Finds: []string{"X86b"}, Shows: "ACCEPTED: a rule looks for a label by a pattern", Edits: []Edit{{rules, `if !ok || !match(pattern, v) {`, `if !ok || !match(v, pattern) {`}}},
	}},
	{"scenario 19", "a rule that wants stops signed is asked again at the dispatch", []string{"P19e", "P19f"}, []Fault{
		{Shows: `actual  : "dispatched"`, Edits: []Edit{
			{permit, `	s.Verdict, err = g.classifyMade(tx, who, s, now, made)
	var refused *refusal.Refusal
`, `	s.Verdict, err = g.classifyMade(tx, who, s, now, made)
	if spec.Runtime {
		s.Verdict = planned.Verdict
	}
	var refused *refusal.Refusal
`}}},
	}},
	{"scenario 20", "a cool-off that a reload takes away still holds for what waits", []string{"X28a"}, []Fault{
		{Shows: `actual  : "succeeded"`, Edits: []Edit{{"internal/base/op/requirement.go", `out := Requirement{CoolOff: max(r.CoolOff, s.CoolOff),`, `out := Requirement{CoolOff: s.CoolOff,`}}},
	}},
	{"scenario 21", "the last key of a role is not removed", []string{"S18a", "S18b"}, []Fault{
		{Finds: []string{"S18a"}, Shows: `"bad_params" in chain but got nil`, Edits: []Edit{{rotation, `(now || soon) && role != op.BreakGlass {`, `(now || soon) && role != op.BreakGlass && len(r.Removed) == 1 {`}}},
		{Finds: []string{"S18b"}, Shows: `"bad_params" in chain but got nil`, Edits: []Edit{{rotation, `(now || soon) && role != op.BreakGlass {`, `(now || soon) && !role.Reserved() {`}}},
	}},
	{"scenario 22", "a security key that nobody touched does not count", []string{"S08a", "S08b", "S08c"}, []Fault{
		{Finds: []string{"S08a", "S08c"}, Shows: `"touch_required" in chain but got nil`, Edits: []Edit{{keys, `a != nil && a.Touch() == op.TouchNone {`, `a != nil && a.Touch() == op.TouchNone && key.Type() != ssh.KeyAlgoSKED25519 {`}}},
		{Finds: []string{"S08b"}, Shows: `"touch_required" in chain but got nil`, Edits: []Edit{{keys, `a != nil && a.Touch() == op.TouchNone {`, `a != nil && a.Touch() == op.TouchNone && key.Type() != ssh.KeyAlgoSKECDSA256 {`}}},
		{Finds: []string{"S08c"}, Shows: `"touch_required" in chain but got nil`, Edits: []Edit{{keys, `a != nil && a.Touch() == op.TouchNone {`, `a != nil && a.Flags == 0 {`}}},
	}},
	{"scenario 24", "opsign signs no bytes for another gate than the one that answers", []string{"TestBytesForAnotherGateAreNotSigned"}, []Fault{
		{Shows: `"target_mismatch" in chain but got nil`, Edits: []Edit{
			{"internal/wire/question/question.go", `q.Payload.Gate != status.Gate || q.Payload.Host`, `q.Payload.Gate != status.Gate && q.Payload.Host`}}},
	}},
	{"scenario 25", "an agent registers itself or an ancestor that no other agent descends from", []string{"A01c", "A01d", "A01f", "A01g", "A01h"}, []Fault{
		{Finds: []string{"A01c", "A01d"}, Shows: "ACCEPTED: an agent registers itself, which takes in orphans", Edits: []Edit{{registers, `	if taker <= highest {`, `	if taker < highest {`}}},
		{Finds: []string{"A01h"}, Shows: "ACCEPTED: an agent registers the leader of another session", Edits: []Edit{{registers,
			`if p.Session == p.PID && own.Session != p.Session {`, `if p.Session == p.PID && own.Session != p.Session && p.Terminal != 0 {`}}},
		{Finds: []string{"A01f", "A01g"}, Shows: "ACCEPTED: an agent registers what it and a registered agent have in common", Edits: []Edit{{registers,
			`		if above {
			return refusal.New(refusal.NotAllowed, "%q, which is registered,`, `		if above && e.Process.PID == p.PID {
			return refusal.New(refusal.NotAllowed, "%q, which is registered,`}}},
	}},
	{"scenario 26", "only who holds a reservation lets go of it", []string{"A02d", "A03d"}, []Fault{
		{Finds: []string{"A02d"}, Shows: `actual  : "builder#1"`, Edits: []Edit{{"internal/agents/agent/who.go", `	e := r.byPID[p.PID]
	if e == nil`, `	e := r.byPID[p.PID]
	for _, other := range r.byPID {
		if q, err := r.cfg.Table.Read(other.Process.PID); e == nil && err == nil && other.committed && q.Parent == p.Parent {
			return other
		}
	}
	if e == nil`}}},
		{Shows: `"not_holder" in chain but got nil`, Edits: []Edit{{"internal/agents/reserve/types.go", `return h.Name == o.Name && h.Account() == o.Account() }`, `return h.Account() == o.Account() }`}}},
	}},
	{"scenario 27", "a uid reserves only where it may write", []string{"TestWhereOneMayNotWrite"}, []Fault{
		{Shows: "reserve /tmp **: ok r1", Edits: []Edit{{"internal/agents/checkout/access.go", `	case d.Mode&unix.S_ISVTX != 0:
		return false
`, ``}}},
	}},
	{"scenario 28", "a program whose bytes changed does not run", []string{"B20c", "B20d"}, []Fault{
		{Shows: "programs/ran", Edits: []Edit{{"internal/driver/command/program.go", `"sha256": p.digest, "option"`, `"sha256": int64(len(p.digest)), "option"`}}},
	}},
	{"scenario 32", "a change between the look and Proxmox VE's delete refuses the delete, and a delete that fails leaves the protection", []string{
		"TestADigestThatIsOldDestroysNothing", "TestChangesUnderTheDestroy", "TestADestroyThatFailsProtectsAgain"}, []Fault{
		{Finds: []string{"TestADigestThatIsOldDestroysNothing"}, Shows: "changed while the step was under way", Edits: []Edit{{guarded, `	v["digest"] = g.digest
`, `	if v["protection"] == "" {
		v["digest"] = g.digest
	}
`}}},
		{Finds: []string{"TestChangesUnderTheDestroy"}, Shows: `"stale_target" in chain but got nil`, Edits: []Edit{{guarded,
			` && now.incarnation() == g.incarnation() && now.fingerprint("") == g.fingerprint("")`, ` && now.incarnation() == g.incarnation()`}}},
		{Finds: []string{"TestADestroyThatFailsProtectsAgain"}, Shows: `expected: "1"`, Edits: []Edit{{guarded, `	if err != nil {
		d.guard(ctx, g)
		return driver.Result{}, worked("destroy", err)`, `	if err != nil {
		if untouched(err) {
			d.guard(ctx, g)
		}
		return driver.Result{}, worked("destroy", err)`}}},
	}},
	{"scenario 42", "what an operator rejected is not asked for again at once", []string{"P20a", "P20b"}, []Fault{
		{Finds: []string{"P20a"}, Shows: "operators are asked again", Edits: []Edit{{"internal/gate/rejected.go", `caller, since := sub.Requester.Payer(), now.Add(-holds)`, `caller, since := sub.Requester.String(), now.Add(-holds)`}}},
		{Finds: []string{"P20b"}, Shows: "operators are asked again", Edits: []Edit{
			{rejects, `	return strings.FieldsFunc(strings.ToLower(reason), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S)
	})`, `	return strings.Split(strings.Trim(strings.ToLower(reason), " ."), " ")`},
			{rejects, `strings.Join(strings.Fields(reason), " ")`, `strings.Trim(reason, " ")`},
		}},
	}},
	{"scenario 70", "what was rejected does not run by a permit from before", []string{"X18", "X29"}, []Fault{
		{Shows: "ACCEPTED: a permit taken before the operator rejected", Edits: []Edit{
			{permit, `if s.State != op.StatePlanned && s.State != op.StateAuthorized {`,
				`if s.State != op.StatePlanned && s.State != op.StateAuthorized && s.State != op.StateRejected {`},
			{permit, `if s.Undoes == 0 && fellThrough(x) {`, `if s.Undoes == 0 && x.ID != id && fellThrough(x) {`},
			{permit, `		if s.State == op.StateAuthorized {
			end, err = g.dispatchSigned`, `		if s.State != op.StatePlanned {
			end, err = g.dispatchSigned`},
			{dispatched, `if !op.TransitionOf("dispatched").Allows(from) {`, `if !op.TransitionOf("dispatched").Allows(from) && from != op.StateRejected {`},
		}},
	}},
}
