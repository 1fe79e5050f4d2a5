package journal

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
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
}

type way struct {
	Name    string   `json:"name"`
	Demands []demand `json:"demands"`
}

type demand struct {
	Rule      string    `json:"rule"`
	Roles     []op.Role `json:"roles"`
	Threshold int       `json:"threshold"`
	Touch     op.Touch  `json:"touch"`
}

// EncodeNeed returns the stored form of a requirement.
func EncodeNeed(r op.Requirement) string {
	n := need{Windows: append([]op.Window{}, r.Windows...), CoolOff: int64(r.CoolOff / time.Second), MaxValidity: int64(r.MaxValidity / time.Second)}
	for _, w := range r.Ways {
		stored := way{Name: w.Name}
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
	plain := r.CoolOff == 0 && len(r.Windows) == 0
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
	r := op.Requirement{Windows: n.Windows, CoolOff: time.Duration(n.CoolOff) * time.Second,
		MaxValidity: time.Duration(n.MaxValidity) * time.Second}
	for _, w := range n.Ways {
		out := op.Way{Name: w.Name}
		for _, d := range w.Demands {
			out.Demands = append(out.Demands, op.Demand(d))
		}
		r.Ways = append(r.Ways, out)
	}
	return r, nil
}
