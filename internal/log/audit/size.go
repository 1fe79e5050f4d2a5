package audit

import "gated/internal/base/refusal"

// MaxEntry is how many bytes an entry may have to go to a segment file, which has its length in two bytes.
const MaxEntry = 1<<16 - 1

// grows is how many bytes longer the entry may be by which the gate asks for signatures to a step that was planned without.
const grows = 4 << 10

// longest is how long an entry of a kind may be whose length its caller chooses. A longer one would hold archiving for ever. Append
// refuses no other kind, because what has happened has to be written.
var longest = map[Kind]int{Planned: MaxEntry - grows, Requested: MaxEntry, Reserved: MaxEntry}

// fits refuses, as Oversized, an entry that has more bytes than its kind may have.
func (k Kind) fits(bytes int) error {
	if most, bounded := longest[k]; bounded && bytes > most {
		return refusal.New(refusal.Oversized, "its entry in the audit log would have %d bytes, more than %d", bytes, most).
			WithHint("shorten the parameters, the patterns or the reason; a quotation mark counts twice")
	}
	return nil
}
