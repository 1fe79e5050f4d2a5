package client

import (
	"fmt"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// knownHeader begins a new file.
const knownHeader = "# The gates that opsign knows, one a line: ADDRESS HOST GATEID. See opsign known and opsign forget.\n"

// maxHostText is the longest name of a gate's host, in bytes; the same as in a payload.
const maxHostText = 253

// KnownGate is what a gate said of itself at the first meeting.
type KnownGate struct {
	Address Address   `json:"address"`
	Host    string    `json:"host"` // that it guards, in its own words
	Gate    op.GateID `json:"gate"`
	Line    int       `json:"-"` // of its file, from 1
}

// String writes the line of known_gates, without its end.
func (k KnownGate) String() string {
	return string(k.Address) + " " + escape(k.Host) + " " + string(k.Gate)
}

// ParseKnown reads known_gates: one gate a line, three fields with one space between them. It skips empty lines and
// lines that begin with #. Any other form, or a repeated address, is Malformed, with the name and the line.
func ParseKnown(name string, text []byte) ([]KnownGate, error) {
	var out []KnownGate
	seen := map[Address]int{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		k, why := parseKnownLine(line)
		if first := seen[k.Address]; why == "" && first > 0 {
			why = fmt.Sprintf("%s is on line %d already", k.Address, first)
		}
		if why != "" {
			return nil, refusal.New(refusal.Malformed, "%s:%d: %s", name, n, why).
				WithHint("each line is ADDRESS HOST GATEID; correct the line, or remove it to meet that gate anew")
		}
		k.Line = n
		seen[k.Address] = n
		out = append(out, k)
	}
	return out, nil
}

func parseKnownLine(line string) (k KnownGate, why string) {
	f := strings.Split(line, " ")
	if len(f) != 3 {
		return k, "not three fields with one space between them"
	}
	address, err := ParseAddress(f[0])
	if err != nil || string(address) != f[0] {
		return k, fmt.Sprintf("%q is not the address of a gate", f[0])
	}
	host, ok := unescape(f[1])
	if !ok || !isHostText(host) {
		return k, fmt.Sprintf("%q is not the name of a gate's host", f[1])
	}
	k = KnownGate{Address: address, Host: host, Gate: op.GateID(f[2])}
	if !k.Gate.Valid() {
		return k, fmt.Sprintf("%q is not a gate's id, which has 32 lower-case hex digits", f[2])
	}
	return k, ""
}

func isHostText(s string) bool {
	return s != "" && len(s) <= maxHostText && op.CheckText("host", s) == nil
}
