package reserve

import "time"

// The limits. A pattern's own are glob's.
const (
	DefaultTTL   = 15 * time.Minute
	MinTTL       = 10 * time.Second
	MaxTTL       = 24 * time.Hour
	MaxWait      = 24 * time.Hour
	MaxPath      = 4096 // bytes of a scope's path
	MaxPatterns  = 50   // of one reservation
	MaxPerHolder = 50   // reservations in force, of one holder in one scope
	MaxConflicts = 20   // that are told
	MaxCheck     = 2000 // patterns of one check
	MaxScopes    = 50_000

	// What is in force at most, over all scopes: of one holder, and of one uid under
	// all its names.
	MaxReservations = 500
	MaxPerUID       = 2000

	// What the patterns may weigh that are in force, in bytes (see weight): of one
	// holder, and of one uid under all its names.
	MaxWeight       = 32 << 10
	MaxWeightPerUID = 64 << 10
	weightOfPattern = 28

	MaxWaiters          = 1024 // claims that wait
	MaxWaitersPerHolder = 16
	MaxWaitersPerUID    = 256

	// MaxCandidates is how many patterns of others one pattern is compared with.
	MaxCandidates = 16_384

	// DefaultList and MaxList are how many reservations List returns.
	DefaultList = 100
	MaxList     = 1000
)

// What may be spent, in pairs of bytes that are compared: some 8 of them are a
// nanosecond of a processor.
const (
	maxWork    = 1 << 32 // on a search outside the writer: half a second
	insideWork = 1 << 25 // on a search in a transaction, while others' writes wait: 4 ms
	queueWork  = 1 << 28 // there on the claims that wait: 30 ms
	wakeWork   = 1 << 26 // on whom a change concerns; beyond it all that wait look for themselves

	workOfRow    = 1 << 15 // to read a row
	workOfPrefix = 1 << 7  // to compare two prefixes
	workOfPair   = 1 << 13 // a comparison, beside the product of both lengths
	workOfParse  = 1 << 13 // a byte of a pattern that has to be read again
)

// Bounds of searches outside the writer: how many go on at a time, how many
// reservations one remembers, and how often one goes on with what is new.
const (
	maxSearches = 2
	maxSurveyed = 1024
	maxSurveys  = 8
)

// Lapsing is announced when a quarter of the time is left, but no sooner than a
// minute before the end.
const (
	announceBefore = time.Minute
	announceShare  = 4
)

// leastRenewal is by how much a renewal moves the end at least: less is not worth
// an entry in the log.
const leastRenewal = time.Second

// Batch is how many reservations one transaction ends or announces at most,
// because they are due, because somebody releases all that it has, or because an
// agent ended: others' writes wait meanwhile. A signed release of a scope is one
// transaction all the same. maxBatches is how often that is done for one call,
// whose holder may reserve meanwhile.
const (
	Batch      = 64
	maxBatches = 64
	noLimit    = 1 << 30
)
