package api

import "time"

// Trust is the list of signers in force: the answer of GET /v1/trust. The daemon says so itself.
type Trust struct {
	Epoch   int64     `json:"epoch"`  // from 1; each change adds 1
	SHA256  string    `json:"sha256"` // of Text
	How     string    `json:"how"`    // what made it: init, adopted, or the step that rotated it
	At      time.Time `json:"at"`     // when
	Text    string    `json:"text"`   // the allowed_signers file
	Signers []Signer  `json:"signers"`
	Revoked []string  `json:"revoked"` // the fingerprints of the signers that a revocation refuses
	Blocked bool      `json:"blocked"` // the revocation file cannot be read, so each signature is refused
}

// Signer is one line of the list.
type Signer struct {
	Line        int        `json:"line"`
	Principal   string     `json:"principal"` // of a CA's line, patterns
	Fingerprint string     `json:"fingerprint"`
	KeyType     string     `json:"key_type"`
	Roles       []Role     `json:"roles"`
	Batches     []Role     `json:"batches"` // those of them in which it may sign batches
	CA          bool       `json:"cert_authority"`
	Passkey     string     `json:"passkey"`  // the relying party of a passkey, a host name; empty for another key
	Software    bool       `json:"software"` // it may sign without a person's touch
	ValidAfter  *time.Time `json:"valid_after"`
	ValidBefore *time.Time `json:"valid_before"`
}

// Verified is what the daemon's own check of its audit log found last: the answer of GET /v1/audit/verified.
type Verified struct {
	OK      bool       `json:"ok"`      // it found nothing wrong
	Entries int64      `json:"entries"` // 0 before the first check has ended
	Hash    string     `json:"hash"`    // of the last entry that was checked; empty before
	At      *time.Time `json:"at"`      // when the check ended; null before
	Detail  string     `json:"detail"`  // for people

	// NotRead is up to which entry the log is archived. The check did not read these entries: it knows that the hashes of their tiles fit.
	NotRead int64 `json:"not_read,omitzero"`
}
