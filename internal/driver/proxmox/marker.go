package proxmox

import (
	"fmt"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// marker is the gate's own line in a guest's description, because Proxmox VE has no field for
// its content. A user who may edit descriptions may edit it. The gate believes a birth token in
// it only if the gate's own journal issued that token.
//
// A clone and a restored backup have the description of the original. So the line names the
// vmid that it was written for, and under another vmid its birth does not count. Its protection
// and labels always count, because they only add protection.
type marker struct {
	there     bool
	vmid      int64
	birth     string
	protected bool
	labels    map[string]string
}

const markerStart = "gated:"

// maxDescription is the schema's bound, in bytes.
const maxDescription = 8192

// parseMarker finds the line. A description without a line is allowed. A description with two
// lines, or with a line that cannot be read, is an error, because the line may have labels that
// protect.
func parseMarker(description string) (marker, error) {
	var m marker
	for line := range strings.SplitSeq(description, "\n") {
		text, ok := strings.CutPrefix(line, markerStart)
		if !ok {
			continue
		}
		if m.there {
			return marker{}, fmt.Errorf("the description has two lines that begin with %q", markerStart)
		}
		p, err := op.ParseParams([]byte(strings.TrimSpace(text)))
		if err != nil {
			return marker{}, fmt.Errorf("the description's line %q cannot be read: %s", markerStart, refusal.As(err).Detail)
		}
		if m, err = readMarker(p); err != nil {
			return marker{}, err
		}
	}
	return m, nil
}

func readMarker(p op.Params) (marker, error) {
	m := marker{there: true, vmid: p.Int("vmid"), birth: p.Str("birth"), protected: p.Bool("protected"), labels: p.Labels("labels")}
	if back := m.params(); !back.Equal(p) {
		return marker{}, fmt.Errorf("the description's line %q has something in it that the gate did not write", markerStart)
	}
	return m, nil
}

func (m marker) params() op.Params {
	labels := make(map[string]any, len(m.labels))
	for k, v := range m.labels {
		labels[k] = v
	}
	p := op.Params{"vmid": m.vmid, "protected": m.protected, "labels": labels}
	if m.birth != "" {
		p["birth"] = m.birth
	}
	return p
}

// in returns the description with the line added or replaced. If the API would refuse the
// description, the error is Oversized.
func (m marker) in(description string) (string, error) {
	lines := []string{}
	for line := range strings.SplitSeq(strings.TrimRight(description, "\n"), "\n") {
		if !strings.HasPrefix(line, markerStart) && (line != "" || len(lines) > 0) {
			lines = append(lines, line)
		}
	}
	lines = append(lines, markerStart+" "+string(m.params().Canonical()))
	text := strings.Join(lines, "\n")
	// The API counts characters. Bytes are never fewer, so this bound is safe.
	if len(text) > maxDescription {
		return "", refusal.New(refusal.Oversized,
			"the guest's description would have %d bytes with these labels, more than Proxmox VE's %d", len(text), maxDescription)
	}
	return text, nil
}
