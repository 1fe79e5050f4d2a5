package journal

import (
	"gated/internal/base/op"
	"gated/internal/base/store"
)

// SchemaOutputs is the table of the steps' output. It is a table of its own, so that
// a query of steps does not read the output. The index finds a create's work by the
// birth token.
const SchemaOutputs = `
CREATE TABLE outputs(
	job  INTEGER NOT NULL,
	idx  INTEGER NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY(job, idx),
	FOREIGN KEY(job, idx) REFERENCES steps(job, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX steps_birth ON steps(birth) WHERE birth <> '';
`

// AddOutput stores the output of a step that has just ended. Each step has at most
// one output, and it never changes.
func AddOutput(tx *store.Tx, id op.StepID, text string) error {
	_, err := tx.Exec(`INSERT INTO outputs(job, idx, text) VALUES(?, ?, ?)`, int64(id.Job), id.Index, text)
	return err
}

// ReadShownJob is ReadJob with the output of the steps.
func ReadShownJob(tx *store.Tx, id op.JobID) (op.Job, error) {
	j, err := ReadJob(tx, id)
	if err != nil {
		return j, err
	}
	printed, err := outputs(tx, id)
	for i := range j.Steps {
		j.Steps[i].Output = printed[j.Steps[i].ID.Index]
	}
	return j, err
}

// outputs returns the output of a job's steps, by their number. A step without
// output has no entry.
func outputs(tx *store.Tx, job op.JobID) (map[int]string, error) {
	rows, err := tx.Query(`SELECT idx, text FROM outputs WHERE job = ?`, int64(job))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int]string{}
	for rows.Next() {
		var index int
		var text string
		if err := rows.Scan(&index, &text); err != nil {
			return nil, err
		}
		out[index] = text
	}
	return out, rows.Err()
}
