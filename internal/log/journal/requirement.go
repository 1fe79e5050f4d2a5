package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// SchemaPeople lets a request need more than one person. It stores the whole
// requirement, and of each signature what the next check reads.
const SchemaPeople = `
ALTER TABLE requests ADD COLUMN need TEXT NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
UPDATE requests SET need = '{"ways":[{"name":"","demands":[{"rule":"built-in","roles":' || roles || ',"threshold":' || needed ||
	',"touch":""}]}],"windows":[],"cool_off":0,"max_validity":86400}';
ALTER TABLE requests DROP COLUMN roles;
ALTER TABLE requests DROP COLUMN needed;
ALTER TABLE signatures ADD COLUMN ca TEXT NOT NULL DEFAULT '';
ALTER TABLE signatures ADD COLUMN flags INTEGER NOT NULL DEFAULT -1;   -- of a security key, else -1
ALTER TABLE signatures ADD COLUMN counter INTEGER NOT NULL DEFAULT 0;
CREATE TABLE proofs(
	job       INTEGER NOT NULL,
	idx       INTEGER NOT NULL,
	principal TEXT NOT NULL,
	role      TEXT NOT NULL,
	key       TEXT NOT NULL,
	armor     TEXT NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY(job, idx, role, key),
	FOREIGN KEY(job, idx) REFERENCES requests(job, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE trust(
	epoch INTEGER PRIMARY KEY,
	text  BLOB NOT NULL,
	how   TEXT NOT NULL,
	at    INTEGER NOT NULL
) STRICT;
`

// need is the stored form of a requirement. Durations are whole seconds.
type need struct {
	Ways        []way       `json:"ways"`
	Windows     []op.Window `json:"windows"`
	CoolOff     int64       `json:"cool_off"`
	MaxValidity int64       `json:"max_validity"`
	Single      bool        `json:"single,omitzero"`
}

type way struct {
	Name    string   `json:"name"`
	Demands []demand `json:"demands"`
	Delay   int64    `json:"delay,omitzero"`
}

type demand struct {
	Rule      string    `json:"rule"`
	Roles     []op.Role `json:"roles"`
	Threshold int       `json:"threshold"`
	Touch     op.Touch  `json:"touch"`
	NoPasskey bool      `json:"no_passkey,omitzero"`
	Apart     bool      `json:"not_requester,omitzero"`
}

// EncodeNeed returns the stored form of a requirement.
func EncodeNeed(r op.Requirement) string {
	n := need{Windows: append([]op.Window{}, r.Windows...), CoolOff: int64(r.CoolOff / time.Second), MaxValidity: int64(r.MaxValidity / time.Second),
		Single: r.Single}
	for _, w := range r.Ways {
		stored := way{Name: w.Name, Delay: int64(w.Delay / time.Second)}
		for _, d := range w.Demands {
			stored.Demands = append(stored.Demands, demand(d))
		}
		n.Ways = append(n.Ways, stored)
	}
	b, err := json.Marshal(n)
	if err != nil {
		panic("journal: a requirement does not encode: " + err.Error()) // it has only strings and numbers
	}
	return string(b)
}

// EncodeExtra is EncodeNeed for the audit log. It is empty if only the catalogue
// asks for signatures.
func EncodeExtra(r op.Requirement) string {
	plain := r.CoolOff == 0 && len(r.Windows) == 0 && !r.Single
	for _, w := range r.Ways {
		for _, d := range w.Demands {
			plain = plain && d.Rule == op.BuiltIn && d.Threshold == 1 && d.Touch == op.TouchNone
		}
	}
	if plain {
		return ""
	}
	return EncodeNeed(r)
}

// DecodeNeed reads a stored requirement.
func DecodeNeed(text string) (op.Requirement, error) {
	var n need
	if err := json.Unmarshal([]byte(text), &n, json.RejectUnknownMembers(true)); err != nil {
		return op.Requirement{}, fmt.Errorf("decode requirement: %w", err)
	}
	if err := errors.Join(lasts("cool_off", n.CoolOff), lasts("max_validity", n.MaxValidity)); err != nil {
		return op.Requirement{}, err
	}
	r := op.Requirement{Windows: n.Windows, CoolOff: time.Duration(n.CoolOff) * time.Second,
		MaxValidity: time.Duration(n.MaxValidity) * time.Second, Single: n.Single}
	for _, w := range n.Ways {
		if err := lasts("delay of a way", w.Delay); err != nil {
			return op.Requirement{}, err
		}
		out := op.Way{Name: w.Name, Delay: time.Duration(w.Delay) * time.Second}
		for _, d := range w.Demands {
			out.Demands = append(out.Demands, op.Demand(d))
		}
		r.Ways = append(r.Ways, out)
	}
	return r, nil
}

// lasts refuses a number of seconds that is no length of time. More than a Duration holds would come back as fewer, and a
// cool-off would end early.
func lasts(name string, seconds int64) error {
	if seconds < 0 || seconds > int64(math.MaxInt64/time.Second) {
		return fmt.Errorf("decode requirement: %s is %d seconds, not 0 to %d", name, seconds, math.MaxInt64/time.Second)
	}
	return nil
}

// TrustVersion is one version of the allowed_signers file.
type TrustVersion struct {
	Epoch int64 // from 1; each change adds 1
	Text  []byte
	How   string // "init", "adopted", or the step that rotated it
	At    time.Time
}

// ReadTrust returns the newest version, or the zero one if there is none.
func ReadTrust(tx *store.Tx) (TrustVersion, error) { return ReadTrustOf(tx, 0) }

// ReadTrustOf returns the version of an epoch, and for 0 the newest. It is the zero
// version if there is none.
func ReadTrustOf(tx *store.Tx, epoch int64) (v TrustVersion, err error) {
	var at int64
	err = tx.QueryRow(`SELECT epoch, text, how, at FROM trust WHERE ? IN (0, epoch) ORDER BY epoch DESC LIMIT 1`, epoch).
		Scan(&v.Epoch, &v.Text, &v.How, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return TrustVersion{}, nil
	}
	v.At = fromNano(at)
	return v, err
}

// AddTrust appends a version. If it is not the next one, that is a Conflict.
func AddTrust(tx *store.Tx, v TrustVersion) error {
	n, err := tx.Exec(`INSERT INTO trust(epoch, text, how, at)
		SELECT ?, ?, ?, ? WHERE ? = 1 + coalesce((SELECT max(epoch) FROM trust), 0)`, v.Epoch, v.Text, v.How, v.At.UnixNano(), v.Epoch)
	if err == nil && n != 1 {
		err = refusal.New(refusal.Conflict, "the allowed_signers file is not at epoch %d", v.Epoch-1)
	}
	return err
}

// Trusts returns every version, oldest first.
func Trusts(tx *store.Tx) ([]TrustVersion, error) {
	rows, err := tx.Query(`SELECT epoch, text, how, at FROM trust ORDER BY epoch`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []TrustVersion
	for rows.Next() {
		var v TrustVersion
		var at int64
		if err := rows.Scan(&v.Epoch, &v.Text, &v.How, &at); err != nil {
			return nil, err
		}
		v.At = fromNano(at)
		out = append(out, v)
	}
	return out, rows.Err()
}
