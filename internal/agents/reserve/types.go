package reserve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"gated/internal/base/op"
)

// Mode says what others may hold beside a reservation.
type Mode string

// The modes.
const (
	Exclusive Mode = "exclusive" // no other holder's may overlap it
	Shared    Mode = "shared"    // only others' exclusive ones may not overlap it
)

// Place is a directory as a process saw it: the absolute path without symbolic links, and stat(2)'s device and inode.
// Fold says that names there are equal if only case differs.
type Place struct {
	In            string // the member on whose host Path is, or the shared scope below which it is; empty on a gate without callers of other members
	Path          string
	Device, Inode uint64 // 0 in a shared scope, whose members have numbers of their own
	Fold          bool
	Names         *Names // of the caller's host, in a question; nil: Path is its path there
}

// Names are how a host names a place.
type Names struct {
	Path   string   // of the place, for absolute patterns
	Shared []string // shared scopes below the place, as paths relative to it; no pattern may reach into one
}

// Incarnation tells a place from another one with the same path: a directory that was made anew is another place. In a
// shared scope it is the same place.
func (p Place) Incarnation() op.Incarnation {
	sum := sha256.Sum256(fmt.Appendf(nil, "scope %d %d %q", p.Device, p.Inode, p.Key()))
	return op.Incarnation(hex.EncodeToString(sum[:16]))
}

// String returns "/srv/web", or "node2:/srv/web".
func (p Place) String() string {
	if p.In == "" {
		return p.Path
	}
	return p.In + ":" + p.Path
}

// Key returns the path under which the tables have a place: "/srv/web", or "//node2/srv/web". No clean path of a host begins
// with two slashes, so no directory's name can be another place's.
func (p Place) Key() string {
	switch {
	case p.In == "":
		return p.Path
	case p.Path == "/":
		return "//" + p.In
	}
	return "//" + p.In + p.Path
}

// PlaceOf returns the place of a Key, without Device, Inode and Fold.
func PlaceOf(key string) Place {
	rest, in := strings.CutPrefix(key, "//")
	if !in {
		return Place{Path: key}
	}
	name, below, _ := strings.Cut(rest, "/")
	return Place{In: name, Path: "/" + below}
}

// Scope is a place to which the gate gave an id: the directory of that device, inode and path.
type Scope struct {
	ID string // s3
	Place
	At time.Time
}

// Target returns scope/s3.
func (s Scope) Target() op.Target { return op.Target{Kind: op.KindScope, Name: s.ID} }

// Holder is the owner of a reservation: an agent's name and uid together, so that a name never passes to another uid.
// Without a name it is a bare uid. Equal uids of two members are two holders.
type Holder struct {
	Name         string
	UID          uint32
	Member       string // on whose host the uid is; empty on a gate without callers of other members
	Registration int64  // agent.Registration.ID; its end ends the reservations bound to it; 0 for a bare uid
}

// String returns "builder", "uid:1000" or "uid:1000@node2".
func (h Holder) String() string {
	if h.Name == "" {
		return "uid:" + h.Account().String()
	}
	return h.Name
}

// Account returns the uid and the member on whose host it is.
func (h Holder) Account() op.Account { return op.Account{UID: h.UID, Member: h.Member} }

// Same reports whether two are one holder. A process that was started again is the same holder, so what it kept is
// still its own.
func (h Holder) Same(o Holder) bool { return h.Name == o.Name && h.Account() == o.Account() }

// Reservation is a claim on paths that is in force.
type Reservation struct {
	ID        op.ReservationID
	Scope     Scope
	Patterns  []string // glob.Pattern.String of each, sorted, none twice
	Mode      Mode
	Holder    Holder
	Alive     bool // its holder's process; true if the gate cannot tell
	Keep      bool // it outlives its holder's process
	Reason    string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Life says, for people, whether the holder's process lives.
func (r Reservation) Life() string {
	switch {
	case r.Holder.Name == "":
		return "bound to no process"
	case !r.Alive:
		return "ended"
	}
	return "alive"
}

// Conflict is another holder's reservation that overlaps what was asked for.
type Conflict struct {
	Pattern  string // the caller's pattern, as it was written
	Overlaps string // the reservation's pattern
	Reservation
}

// The limits. Package glob has the limits of one pattern.
const (
	DefaultTTL   = 15 * time.Minute
	MinTTL       = 10 * time.Second
	MaxTTL       = 24 * time.Hour
	MaxWait      = 24 * time.Hour
	MaxPath      = 4096 // bytes of a scope's path
	MaxPatterns  = 50   // of one reservation
	MaxPerHolder = 50   // reservations in force, of one holder in one scope
	MaxConflicts = 20   // that an answer names
	MaxCheck     = 2000 // patterns of one check
	MaxScopes    = 50_000

	// The most reservations in force, over all scopes: of one holder, and of one uid under all its names.
	MaxReservations = 500
	MaxPerUID       = 2000

	// The most that the patterns in force may weigh, in bytes (see weight): of one holder, and of one uid under all its
	// names.
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

// How much work may be spent, in steps of glob.OverlapWithin. A step takes about 10 ns.
const (
	maxWork   = 50_000_000 // on a search in a uid's turn: half a second
	smallWork = 400_000    // on a search out of turn, and on what is new in a transaction, while other writes wait: 4 ms
	queueWork = 3_000_000  // in a transaction, on the claims that wait: 30 ms
	wakeWork  = 800_000    // on finding the claims that a change concerns; beyond it, all claims that wait look again

	workOfRow   = 400 // to read a row
	workOfPair  = 20  // to compare two patterns, beside the steps
	workOfParse = 100 // to read a byte of a pattern again
)

// Bounds of searches: how many long ones run at a time, how many reservations one remembers, and how often one
// continues with what is new.
const (
	maxSearches = 2
	maxSurveyed = 1024
	maxSurveys  = 8
)

// The end is announced when a quarter of the time is left, but at the earliest a minute before it.
const (
	announceBefore = time.Minute
	announceShare  = 4
)

// leastRenewal is the least by which a renewal moves the end. A smaller move is not worth an entry in the log.
const leastRenewal = time.Second

// Batch is how many reservations one transaction ends or announces at most, because other writes wait meanwhile. It
// holds for those that are due, for a holder that releases all, and for an agent that ended. A signed release of a
// scope is one transaction of any size. maxBatches bounds the transactions of one call, because its holder may reserve
// meanwhile.
const (
	Batch      = 64
	maxBatches = 64
	noLimit    = 1 << 30
)
