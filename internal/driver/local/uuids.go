package local

import (
	"errors"
	"io/fs"
	"sync"
)

// uuidIndex remembers the uuid in each guest.json. So to find a copy among thousands of guests
// costs one stat each, and no reading.
type uuidIndex struct {
	mu   sync.Mutex
	seen map[string]fileStamp
}

type fileStamp struct {
	ino           uint64
	changed, size int64
	uuid          string // "" if it could not be read
}

// checkAlone refuses with StaleTarget if another guest has g's uuid.
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

// owners returns the names by the uuid in their guest.json.
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

// refresh reads every guest.json that changed since the last read.
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

// uuidOf reads the uuid in a guest.json, without checking it. A file that cannot be read has
// none, because Observe of that guest reports the problem.
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
