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

	// DefaultList and MaxList are how many reservations List returns.
	DefaultList = 100
	MaxList     = 1000
)

// What may be spent, in steps of glob.OverlapWithin, of some 10 ns.
const (
	maxWork   = 50_000_000 // on a search in a uid's turn: half a second
	smallWork = 400_000    // on one out of turn, and on what is new in a transaction, while others' writes wait: 4 ms
	queueWork = 3_000_000  // there on the claims that wait: 30 ms
	wakeWork  = 800_000    // on whom a change concerns; beyond it all that wait look for themselves

	workOfRow   = 400 // to read a row
	workOfPair  = 20  // a comparison, beside its steps
	workOfParse = 100 // a byte of a pattern that has to be read again
)

// Bounds of searches: how many long ones go on at a time, how many reservations
// one remembers, and how often one goes on with what is new.
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
