package op

// KindTrust is the kind of the trust file, which says which people may approve what.
// It has one target.
const KindTrust = "trust"

// Rotate is the only operation that changes which people decide.
const Rotate = "trust.rotate"

// Signers is the trust file, the one target of its kind.
var Signers = Target{Kind: KindTrust, Name: "signers"}

func trustRows() []Spec {
	return []Spec{{Name: Rotate, Kind: KindTrust, Doc: "change who may approve what: signers is the only target",
		Params: []Param{
			{Name: "add", Type: TLines, Doc: "lines of allowed_signers to add"},
			{Name: "remove", Type: TLines, Doc: "SHA256 fingerprints of keys to take out, every line of each"},
			{Name: "epoch", Type: TInt, Min: 1, Max: MaxInt, Required: true, Doc: "the number of the file that this makes, one more than now"},
		},
		Takes: "from those who are taken out, the right to sign",
		Roles: []Role{Operational, Recovery}, Covers: "the epoch and every byte of allowed_signers",
		Rules: []Rule{{Name: "trust-rotation", Class: Destructive, Why: say("it changes who may approve what")}},
		// The epoch increases by one with each change. The step that made it tells this
		// rotation from a file that root adopted meanwhile.
		Shows: func(s Step, o Observed) Evidence {
			return shows(o.Spec.Int("epoch") == s.Params.Int("epoch") && o.Spec.Str("made_by") == s.ID.String())
		}}}
}
