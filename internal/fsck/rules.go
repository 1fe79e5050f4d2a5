package fsck

// Rule is one of the things that must always hold, as far as a database can
// show it. Its text never changes its meaning: programs compare it.
type Rule string

// The rules. docs/formats/fsck.md says what each can show and what it cannot.
const (
	Database     Rule = "database"     // pages, indexes and references are in order
	Schema       Rule = "schema"       // tables, indexes and triggers are those that the migrations make
	AuditLog     Rule = "audit-log"    // the log is whole: entries, hashes, tree and signed head
	Decided      Rule = "decided"      // every decision is in the audit log
	Permit       Rule = "permit"       // no permit, no execution
	SignedStep   Rule = "signed-step"  // exactly the signed step
	TrustEpochs  Rule = "trust-epochs" // every version of the list of signers is the log's
	Once         Rule = "once"         // a nonce counts once, and a destructive step runs once
	GateIDs      Rule = "gate-ids"     // a new gate id is a restore or an accepted clock
	Outputs      Rule = "outputs"      // what steps printed is what the log says
	Provenance   Rule = "provenance"   // provenance is ours
	Jobs         Rule = "jobs"         // a job ends with its steps
	Answers      Rule = "answers"      // an idempotency key stands for an answer that was given
	DesiredSets  Rule = "desired-sets" // wishes are as they were put
	Agents       Rule = "agents"       // agents are who the log says
	Reservations Rule = "reservations" // reservations are as the log says
	Apart        Rule = "apart"        // no two holders have what overlaps
	Copy         Rule = "copy"         // a copy does not start
)

// Code names one way in which a rule does not hold. Programs compare it.
type Code string

// The codes, by rule.
const (
	pageDamaged     Code = "page-damaged"
	referenceBroken Code = "reference-broken"
	rowInvalid      Code = "row-invalid"
	unreadable      Code = "unreadable"

	schemaMissing Code = "schema-missing"
	schemaUnknown Code = "schema-unknown"
	schemaChanged Code = "schema-changed"

	entryBroken    Code = "entry-broken"
	entryUnclear   Code = "entry-unclear"
	keyUnknown     Code = "key-unknown"
	keyChanged     Code = "key-changed"
	keyLost        Code = "key-lost"
	headForeign    Code = "head-foreign"
	headUnreadable Code = "head-unreadable"
	headUnsigned   Code = "head-unsigned"

	stepState        Code = "step-state"
	stepChanged      Code = "step-changed"
	stepClass        Code = "step-class"
	stepUndoes       Code = "step-undoes"
	stepWords        Code = "step-words"
	stepLost         Code = "step-lost"
	moveImpossible   Code = "move-impossible"
	undoUnfit        Code = "undo-unfit"
	undoIgnored      Code = "undo-ignored"
	requesterUnknown Code = "requester-unknown"
	requesterChanged Code = "requester-changed"
	requesterLost    Code = "requester-lost"

	dispatchedUnapproved Code = "dispatched-unapproved"
	ranUnapproved        Code = "ran-unapproved"
	classLowered         Code = "class-lowered"
	scopeStepUnknown     Code = "scope-step-unknown"
	takenWithoutStep     Code = "taken-without-step"

	requestMissing       Code = "request-missing"
	payloadUnreadable    Code = "payload-unreadable"
	payloadOtherStep     Code = "payload-other-step"
	payloadTimes         Code = "payload-times"
	payloadOtherGate     Code = "payload-other-gate"
	payloadOtherHost     Code = "payload-other-host"
	payloadNotIssued     Code = "payload-not-issued"
	payloadNotApproved   Code = "payload-not-approved"
	needTooLittle        Code = "need-too-little"
	needChanged          Code = "need-changed"
	shownUnreadable      Code = "shown-unreadable"
	shownChanged         Code = "shown-changed"
	offlineChanged       Code = "offline-changed"
	offlineReissued      Code = "offline-reissued"
	signaturesUnreadable Code = "signatures-unreadable"
	signatureInvalid     Code = "signature-invalid"
	proofInvalid         Code = "proof-invalid"
	signaturesUncounted  Code = "signatures-uncounted"
	signaturesNotMet     Code = "signatures-not-met"
	signaturesOther      Code = "signatures-other"
	signerNotListed      Code = "signer-not-listed"

	trustGap     Code = "trust-gap"
	trustUnknown Code = "trust-unknown"
	trustChanged Code = "trust-changed"
	trustLost    Code = "trust-lost"

	dispatchedTwice    Code = "dispatched-twice"
	retriedDestructive Code = "retried-destructive"
	wouldRunAgain      Code = "would-run-again"
	timeMarkBehind     Code = "time-mark-behind"
	nonceMissing       Code = "nonce-missing"
	nonceForgotten     Code = "nonce-forgotten"
	nonceForeign       Code = "nonce-foreign"
	nonceSpentEarly    Code = "nonce-spent-early"
	nonceUnspent       Code = "nonce-unspent"
	nonceFate          Code = "nonce-fate"
	nonceStray         Code = "nonce-stray"

	gateUnexplained Code = "gate-unexplained"
	gateReused      Code = "gate-reused"
	gateNotNewest   Code = "gate-not-newest"

	outputUnknown Code = "output-unknown"
	outputChanged Code = "output-changed"
	outputLost    Code = "output-lost"

	madeTwice      Code = "made-twice"
	madeUnknown    Code = "made-unknown"
	madeChanged    Code = "made-changed"
	madeLost       Code = "made-lost"
	scratchEnd     Code = "scratch-end"
	usedChanged    Code = "used-changed"
	storageUnknown Code = "storage-unknown"
	storageLost    Code = "storage-lost"

	jobOpen       Code = "job-open"
	jobEndedEarly Code = "job-ended-early"

	answerWithoutJob Code = "answer-without-job"
	answerUnclear    Code = "answer-unclear"

	setUnknown Code = "set-unknown"
	setChanged Code = "set-changed"
	setLost    Code = "set-lost"

	agentUnclear  Code = "agent-unclear"
	agentTaken    Code = "agent-name-taken"
	agentEndAlone Code = "agent-end-alone"
	agentUnknown  Code = "agent-unknown"
	agentChanged  Code = "agent-changed"
	agentLost     Code = "agent-lost"

	reservationMove      Code = "reservation-move"
	reservationEarly     Code = "reservation-early"
	reservationTaken     Code = "reservation-taken"
	reservationReceiver  Code = "reservation-receiver"
	reservationPaths     Code = "reservation-paths"
	reservationUnknown   Code = "reservation-unknown"
	reservationChanged   Code = "reservation-changed"
	reservationLost      Code = "reservation-lost"
	reservationUnbound   Code = "reservation-unbound"
	reservationsTogether Code = "reservations-overlap"

	// CopyBound is found by who knows the directory: the database is not the one
	// that was bound to it.
	CopyBound Code = "copy"
)

// codes says which rule each code belongs to.
var codes = map[Rule][]Code{
	Database: {pageDamaged, referenceBroken, rowInvalid, unreadable},
	Schema:   {schemaMissing, schemaUnknown, schemaChanged},
	AuditLog: {entryBroken, entryUnclear, keyUnknown, keyChanged, keyLost, headUnreadable, headForeign, headUnsigned},
	Decided: {stepState, stepChanged, stepClass, stepUndoes, stepWords, stepLost, moveImpossible, undoUnfit, undoIgnored,
		requesterUnknown, requesterChanged, requesterLost},
	Permit: {dispatchedUnapproved, ranUnapproved, classLowered, scopeStepUnknown, takenWithoutStep},
	SignedStep: {requestMissing, payloadUnreadable, payloadOtherStep, payloadTimes, payloadOtherGate, payloadOtherHost, payloadNotIssued, payloadNotApproved,
		needTooLittle, needChanged, shownUnreadable, shownChanged, offlineChanged, offlineReissued, signaturesUnreadable, signatureInvalid,
		proofInvalid, signaturesUncounted, signaturesNotMet, signaturesOther, signerNotListed},
	TrustEpochs: {trustGap, trustUnknown, trustChanged, trustLost},
	Once: {dispatchedTwice, retriedDestructive, wouldRunAgain, timeMarkBehind, nonceMissing, nonceForgotten, nonceForeign, nonceSpentEarly,
		nonceUnspent, nonceFate, nonceStray},
	GateIDs:     {gateUnexplained, gateReused, gateNotNewest},
	Outputs:     {outputUnknown, outputChanged, outputLost},
	Provenance:  {madeTwice, madeUnknown, madeChanged, madeLost, scratchEnd, usedChanged, storageUnknown, storageLost},
	Jobs:        {jobOpen, jobEndedEarly},
	Answers:     {answerWithoutJob, answerUnclear},
	DesiredSets: {setUnknown, setChanged, setLost},
	Agents:      {agentUnclear, agentTaken, agentEndAlone, agentUnknown, agentChanged, agentLost},
	Reservations: {reservationMove, reservationEarly, reservationTaken, reservationReceiver, reservationPaths, reservationUnknown,
		reservationChanged, reservationLost, reservationUnbound},
	Apart: {reservationsTogether},
	Copy:  {CopyBound},
}

// ruleOf is codes the other way round.
var ruleOf = func() map[Code]Rule {
	out := map[Code]Rule{}
	for rule, list := range codes {
		for _, code := range list {
			out[code] = rule
		}
	}
	return out
}()
