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
	weightOfPattern = 24

	MaxWaiters          = 1024 // claims that wait
	MaxWaitersPerHolder = 16

	// MaxCandidates is how many patterns of others one pattern is compared with.
	MaxCandidates = 16_384

	// DefaultList and MaxList are how many reservations List returns.
	DefaultList = 100
	MaxList     = 1000
)

// What one decision may cost, in pairs of bytes that are compared: about half a
// second of a processor, while others' writes wait.
const (
	maxWork     = 1 << 32
	workOfPair  = 1 << 13 // a comparison, beside the product of both lengths
	workOfParse = 1 << 13 // a byte of a pattern that has to be read again
)

// Lapsing is announced when a quarter of the time is left, but no sooner than a
// minute before the end.
const (
	announceBefore = time.Minute
	announceShare  = 4
)

// dueBatch is how much that is due one transaction takes care of.
const dueBatch = 64

// endBatch is how many reservations one transaction ends at most beside those,
// and maxBatches how often that is done for one registration, which may reserve
// meanwhile. A signed release of a scope is one transaction all the same.
const (
	endBatch   = 64
	maxBatches = 64
	noLimit    = -1
)
