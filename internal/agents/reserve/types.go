package reserve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	Path          string
	Device, Inode uint64
	Fold          bool
}

// Incarnation tells a place from another one with the same path: a directory that was made anew is another place.
func (p Place) Incarnation() op.Incarnation {
	sum := sha256.Sum256(fmt.Appendf(nil, "scope %d %d %q", p.Device, p.Inode, p.Path))
	return op.Incarnation(hex.EncodeToString(sum[:16]))
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
// Without a name it is a bare uid.
type Holder struct {
	Name         string
	UID          uint32
	Registration int64 // agent.Registration.ID; its end ends the reservations bound to it; 0 for a bare uid
}

// String returns "builder" or "uid:1000".
func (h Holder) String() string {
	if h.Name == "" {
		return fmt.Sprintf("uid:%d", h.UID)
	}
	return h.Name
}

// Same reports whether two are one holder. A process that was started again is the same holder, so what it kept is
// still its own.
func (h Holder) Same(o Holder) bool { return h.Name == o.Name && h.UID == o.UID }

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
