package fsck

// Rule is a rule that must always hold, as far as a database can show it. Its text
// never changes its meaning, because programs compare it.
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
	GateIDs      Rule = "gate-ids"     // a new gate id comes from a restore or an accepted clock
	Outputs      Rule = "outputs"      // the output of steps is as the log says
	Provenance   Rule = "provenance"   // provenance is ours
	Jobs         Rule = "jobs"         // a job ends with its steps
	Answers      Rule = "answers"      // an idempotency key has an answer that was given
	DesiredSets  Rule = "desired-sets" // desired sets are as they were put
	Agents       Rule = "agents"       // agents are those of the log
	Reservations Rule = "reservations" // reservations are those of the log
	Apart        Rule = "apart"        // no two holders have paths that overlap
	Copy         Rule = "copy"         // a copy does not start
	Ledger       Rule = "ledger"       // the rows are those that the ledger makes
)

// Code names one way to break a rule. Programs compare it.
type Code string

// ruleOf has the rule of each code.
var ruleOf = map[Code]Rule{}

func (r Rule) code(name Code) Code {
	ruleOf[name] = r
	return name
}

// The codes, by rule.
var (
	pageDamaged     = Database.code("page-damaged")
	referenceBroken = Database.code("reference-broken")
	rowInvalid      = Database.code("row-invalid")
	unreadable      = Database.code("unreadable")

	schemaMissing = Schema.code("schema-missing")
	schemaUnknown = Schema.code("schema-unknown")
	schemaChanged = Schema.code("schema-changed")

	entryBroken    = AuditLog.code("entry-broken")
	entryUnclear   = AuditLog.code("entry-unclear")
	keyUnknown     = AuditLog.code("key-unknown")
	keyChanged     = AuditLog.code("key-changed")
	keyLost        = AuditLog.code("key-lost")
	headForeign    = AuditLog.code("head-foreign")
	headUnreadable = AuditLog.code("head-unreadable")
	headUnsigned   = AuditLog.code("head-unsigned")

	segmentMissing  = AuditLog.code("segment-missing")
	segmentDamaged  = AuditLog.code("segment-damaged")
	segmentUnknown  = AuditLog.code("segment-unknown")
	archivedChanged = Decided.code("archived-changed")

	stepState        = Decided.code("step-state")
	stepChanged      = Decided.code("step-changed")
	stepClass        = Decided.code("step-class")
	stepUndoes       = Decided.code("step-undoes")
	stepWords        = Decided.code("step-words")
	stepLost         = Decided.code("step-lost")
	moveImpossible   = Decided.code("move-impossible")
	undoUnfit        = Decided.code("undo-unfit")
	undoIgnored      = Decided.code("undo-ignored")
	requesterUnknown = Decided.code("requester-unknown")
	requesterChanged = Decided.code("requester-changed")
	requesterLost    = Decided.code("requester-lost")

	rejectionUnknown = Decided.code("rejection-unknown")
	rejectionChanged = Decided.code("rejection-changed")
	rejectionLost    = Decided.code("rejection-lost")

	incidentUnknown = Decided.code("incident-unknown")
	incidentChanged = Decided.code("incident-changed")
	incidentLost    = Decided.code("incident-lost")

	dispatchedUnapproved = Permit.code("dispatched-unapproved")
	ranUnapproved        = Permit.code("ran-unapproved")
	classLowered         = Permit.code("class-lowered")
	scopeStepUnknown     = Permit.code("scope-step-unknown")
	takenWithoutStep     = Permit.code("taken-without-step")

	requestMissing       = SignedStep.code("request-missing")
	payloadUnreadable    = SignedStep.code("payload-unreadable")
	payloadOtherStep     = SignedStep.code("payload-other-step")
	payloadTimes         = SignedStep.code("payload-times")
	payloadOtherGate     = SignedStep.code("payload-other-gate")
	payloadOtherHost     = SignedStep.code("payload-other-host")
	payloadNotIssued     = SignedStep.code("payload-not-issued")
	payloadNotApproved   = SignedStep.code("payload-not-approved")
	needTooLittle        = SignedStep.code("need-too-little")
	needChanged          = SignedStep.code("need-changed")
	shownUnreadable      = SignedStep.code("shown-unreadable")
	shownChanged         = SignedStep.code("shown-changed")
	offlineChanged       = SignedStep.code("offline-changed")
	offlineReissued      = SignedStep.code("offline-reissued")
	signaturesUnreadable = SignedStep.code("signatures-unreadable")
	signatureInvalid     = SignedStep.code("signature-invalid")
	proofInvalid         = SignedStep.code("proof-invalid")
	signaturesUncounted  = SignedStep.code("signatures-uncounted")
	signaturesNotMet     = SignedStep.code("signatures-not-met")
	signaturesOther      = SignedStep.code("signatures-other")
	signerNotListed      = SignedStep.code("signer-not-listed")

	trustGap     = TrustEpochs.code("trust-gap")
	trustUnknown = TrustEpochs.code("trust-unknown")
	trustChanged = TrustEpochs.code("trust-changed")
	trustLost    = TrustEpochs.code("trust-lost")

	dispatchedTwice    = Once.code("dispatched-twice")
	retriedDestructive = Once.code("retried-destructive")
	wouldRunAgain      = Once.code("would-run-again")
	timeMarkBehind     = Once.code("time-mark-behind")
	nonceMissing       = Once.code("nonce-missing")
	nonceForgotten     = Once.code("nonce-forgotten")
	nonceForeign       = Once.code("nonce-foreign")
	nonceSpentEarly    = Once.code("nonce-spent-early")
	nonceUnspent       = Once.code("nonce-unspent")
	nonceFate          = Once.code("nonce-fate")
	nonceStray         = Once.code("nonce-stray")

	gateUnexplained = GateIDs.code("gate-unexplained")
	gateReused      = GateIDs.code("gate-reused")
	gateNotNewest   = GateIDs.code("gate-not-newest")

	outputUnknown = Outputs.code("output-unknown")
	outputChanged = Outputs.code("output-changed")
	outputLost    = Outputs.code("output-lost")

	madeTwice      = Provenance.code("made-twice")
	madeUnknown    = Provenance.code("made-unknown")
	madeChanged    = Provenance.code("made-changed")
	madeLost       = Provenance.code("made-lost")
	scratchEnd     = Provenance.code("scratch-end")
	usedChanged    = Provenance.code("used-changed")
	storageUnknown = Provenance.code("storage-unknown")
	storageLost    = Provenance.code("storage-lost")

	jobOpen       = Jobs.code("job-open")
	jobEndedEarly = Jobs.code("job-ended-early")

	answerWithoutJob = Answers.code("answer-without-job")
	answerUnclear    = Answers.code("answer-unclear")

	setUnknown = DesiredSets.code("set-unknown")
	setChanged = DesiredSets.code("set-changed")
	setLost    = DesiredSets.code("set-lost")

	agentUnclear  = Agents.code("agent-unclear")
	agentTaken    = Agents.code("agent-name-taken")
	agentEndAlone = Agents.code("agent-end-alone")
	agentUnknown  = Agents.code("agent-unknown")
	agentChanged  = Agents.code("agent-changed")
	agentLost     = Agents.code("agent-lost")

	reservationMove      = Reservations.code("reservation-move")
	reservationEarly     = Reservations.code("reservation-early")
	reservationTaken     = Reservations.code("reservation-taken")
	reservationReceiver  = Reservations.code("reservation-receiver")
	reservationPaths     = Reservations.code("reservation-paths")
	reservationUnknown   = Reservations.code("reservation-unknown")
	reservationChanged   = Reservations.code("reservation-changed")
	reservationLost      = Reservations.code("reservation-lost")
	reservationUnbound   = Reservations.code("reservation-unbound")
	reservationsTogether = Apart.code("reservations-overlap")

	// CopyBound is for a caller that knows the directory: the database is not the
	// one that was bound to it.
	CopyBound = Copy.code("copy")

	// LedgerRows is for a caller that replays the ledger: a table has other rows.
	LedgerRows = Ledger.code("ledger-rows")
)
