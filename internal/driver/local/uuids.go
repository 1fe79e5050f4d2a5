package local

import (
	"errors"
	"io/fs"
	"sync"
)

// uuidIndex remembers which uuid each guest.json holds, so that looking for a
// copy of one among thousands costs a stat for each and no reading.
type uuidIndex struct {
	mu   sync.Mutex
	seen map[string]fileStamp
}

type fileStamp struct {
	ino           uint64
	changed, size int64
	uuid          string // "" if it could not be read
}

// checkAlone refuses, as StaleTarget, if another guest has g's uuid.
func (x *uuidIndex) checkAlone(d *Driver, g *guest) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(d); err != nil {
		return err
	}
	for name, stamp := range x.seen {
		if stamp.uuid == g.UUID && name != g.name {
			return twins(g.name, name)
		}
	}
	return nil
}

// owners returns the names by the uuid that they claim.
func (x *uuidIndex) owners(d *Driver) (map[string][]string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(d); err != nil {
		return nil, err
	}
	owners := make(map[string][]string, len(x.seen))
	for name, stamp := range x.seen {
		owners[stamp.uuid] = append(owners[stamp.uuid], name)
	}
	return owners, nil
}

// refresh reads every guest.json that changed since it was read last.
func (x *uuidIndex) refresh(d *Driver) error {
	fresh := make(map[string]fileStamp, len(x.seen))
	err := d.root.each(func(name string) error {
		e, err := d.statGuestFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		stamp, known := x.seen[name]
		if err != nil || !known || stamp.ino != e.ino || stamp.changed != e.changed || stamp.size != e.size {
			stamp = fileStamp{e.ino, e.changed, e.size, d.uuidOf(name)}
		}
		fresh[name] = stamp
		return nil
	})
	x.seen = fresh
	return err
}

// uuidOf reads the uuid that a guest.json claims, whether or not the claim
// holds. One that cannot be read has none: Observe of that guest says so.
func (d *Driver) uuidOf(name string) string {
	sub, err := d.root.sub(name)
	if err != nil {
		return ""
	}
	defer sub.close()
	b, err := sub.read(guestFile)
	if err != nil {
		return ""
	}
	s, err := parseSpec(b)
	if err != nil {
		return ""
	}
	return s.UUID
}
