package cli

import "gated/internal/op"

// What both tools say of a request: who signed, who is needed, when it runs.
// Those that end a line have its end.
const (
	wordsSignedAs     = "signed: %s as %s (%s%s)%s\n"
	wordsByCA         = ", certified by %s"
	wordsNeeds        = "needs %d more as %s: %s (%s)\n"
	wordsOrElse       = "or %s alone: %d more as %s: %s (%s)\n"
	wordsNobodyCould  = "nobody who is listed could"
	wordsOwes         = "the new key %s still has to sign as %s (its holder: opsign approve %s --role %s --key FILE)\n"
	wordsOwesUnknown  = "a new key still has to sign: %s\n"
	wordsBuiltIn      = "built-in rule"
	wordsRule         = "rule %s"
	wordsWillCool     = "after the last signature it cools off for %s; any operator can stop it by: opsign reject %s --reason TEXT\n"
	wordsRunsAt       = "authorized; runs at %s\n"
	wordsStop         = "any operator can stop it until then by: opsign reject %s --reason TEXT\n"
	wordsRunsOnly     = "runs only %s\n"
	wordsAndOnly      = " and only "
	wordsNeverOpen    = "authorized, and its windows have no time in common: it will not run; stop it by: opsign reject %s --reason TEXT\n"
	wordsTooLate      = "what was signed expires at %s, before it could run at %s: reject it, and ask again later\n"
	wordsOr           = " or "
	wordsShortNeed    = "%d %s"
	wordsShortOwed    = "%d by new keys"
	wordsShortCool    = "cools off until %s"
	wordsShortWindow  = "waits for its window at %s"
	wordsShortWaiting = "nobody"
)

// touchWords say what a security key attested, and touchNeeds what a demand asks
// of it.
var (
	touchWords = map[op.Touch]string{op.TouchPresent: ", touched", op.TouchVerified: ", touched and verified"}
	touchNeeds = map[op.Touch]string{op.TouchPresent: ", security key with a touch",
		op.TouchVerified: ", security key with a touch and a PIN or fingerprint"}
)
