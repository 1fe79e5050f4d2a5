package local

import (
	"fmt"
	"io/fs"
	"time"

	"gated/internal/base/op"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

const (
	guestFile    = "guest.json"
	dataDir      = "data"
	snapshotsDir = "snapshots"
)

// spec is the content of guest.json. Zero memory or cpus means no limit.
type spec struct {
	UUID      string // the Birth token of the step that made the guest
	Inode     uint64 // of the guest's directory; so is Birth
	Birth     int64  // ns since 1970
	Memory    int64  // MiB
	CPUs      int64
	Command   string
	Labels    map[string]string
	Protected bool
	CreatedAt time.Time
}

// specFile is spec on disk. Its pointers tell a missing member, which is refused, from a zero
// one. A file without "protected" must not read as unprotected.
type specFile struct {
	UUID      *string            `json:"uuid"`
	Inode     *uint64            `json:"inode"`
	Birth     *int64             `json:"birth_ns"`
	Memory    *int64             `json:"memory_mib"`
	CPUs      *int64             `json:"cpus"`
	Command   *string            `json:"command"`
	Labels    *map[string]string `json:"labels"`
	Protected *bool              `json:"protected"`
	CreatedAt *time.Time         `json:"created_at"`
}

// incarnation is the incarnation that the file claims. look compares it with the directory.
func (s spec) incarnation() op.Incarnation {
	return op.Incarnation(fmt.Sprintf("%s:%d:%d", s.UUID, s.Inode, s.Birth))
}

func (s spec) encode() ([]byte, error) {
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	b, err := json.Marshal(specFile{&s.UUID, &s.Inode, &s.Birth, &s.Memory, &s.CPUs, &s.Command, &s.Labels,
		&s.Protected, &s.CreatedAt}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", guestFile, err)
	}
	return append(b, '\n'), nil
}

// parseSpec reads guest.json strictly. Each member must be there once, in its range and not
// null. No other member may be there.
func parseSpec(b []byte) (spec, error) {
	var f specFile
	if err := json.Unmarshal(b, &f, json.RejectUnknownMembers(true)); err != nil {
		return spec{}, fmt.Errorf("%s: %w", guestFile, err)
	}
	if f.UUID == nil || f.Inode == nil || f.Birth == nil || f.Memory == nil || f.CPUs == nil || f.Command == nil ||
		f.Labels == nil || *f.Labels == nil || f.Protected == nil || f.CreatedAt == nil {
		return spec{}, fmt.Errorf("%s lacks a member", guestFile)
	}
	s := spec{*f.UUID, *f.Inode, *f.Birth, *f.Memory, *f.CPUs, *f.Command, *f.Labels, *f.Protected, *f.CreatedAt}
	if err := checkBirth(s.UUID); err != nil {
		return spec{}, fmt.Errorf("%s: %w", guestFile, err)
	}
	if s.Memory < 0 || s.CPUs < 0 || s.Command != "" && op.CheckName(s.Command) != nil {
		return spec{}, fmt.Errorf("%s has a value out of range", guestFile)
	}
	for k, v := range s.Labels {
		if op.CheckName(k) != nil || op.CheckText("a label", v) != nil {
			return spec{}, fmt.Errorf("%s has a label that is not text", guestFile)
		}
	}
	return s, nil
}

// maxBirth is the longest Birth token, so that the names made from it stay below 255 bytes.
const maxBirth = 64

func checkBirth(token string) error {
	if op.CheckName(token) != nil || len(token) > maxBirth {
		return fmt.Errorf("%q is not a birth token", token)
	}
	return nil
}

// statGuestFile looks at <root>/<name>/guest.json in one call. It only finds out if a file
// changed. Before a decision, the driver opens the file component by component.
func (d *Driver) statGuestFile(name string) (entry, error) {
	if err := op.CheckName(name); err != nil {
		return entry{}, fs.ErrNotExist
	}
	return statAt(d.root, name+"/"+guestFile, unix.AT_SYMLINK_NOFOLLOW)
}
