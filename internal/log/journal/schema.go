// Package journal owns the tables of jobs, steps, their output, requests,
// signatures, rejections, provenance, idempotency keys and desired sets. Its functions take a
// *store.Tx and neither begin nor end a transaction.
package journal

// Schema is the journal's tables. Times are Unix nanoseconds; 0 means not yet.
const Schema = `
CREATE TABLE jobs(
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	reason      TEXT NOT NULL,
	created_at  INTEGER NOT NULL,
	finished_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE requesters(
	job     INTEGER NOT NULL REFERENCES jobs(id),
	who     TEXT NOT NULL,
	source  TEXT NOT NULL,
	uid     INTEGER NOT NULL,
	pid     INTEGER NOT NULL,
	agent   TEXT NOT NULL,
	setname TEXT NOT NULL,
	PRIMARY KEY(job, who)
) STRICT, WITHOUT ROWID;
CREATE TABLE steps(
	job         INTEGER NOT NULL REFERENCES jobs(id),
	idx         INTEGER NOT NULL,
	op          TEXT NOT NULL,
	kind        TEXT NOT NULL,
	name        TEXT NOT NULL,
	incarnation TEXT NOT NULL,
	params      TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	class       TEXT NOT NULL,
	rule        TEXT NOT NULL,
	why         TEXT NOT NULL,
	state       TEXT NOT NULL,
	birth       TEXT NOT NULL,
	undoes      INTEGER NOT NULL,
	undo        TEXT NOT NULL DEFAULT '',
	task        TEXT NOT NULL DEFAULT '',
	attempts    INTEGER NOT NULL DEFAULT 0,
	code        TEXT NOT NULL DEFAULT '',
	detail      TEXT NOT NULL DEFAULT '',
	wish        TEXT NOT NULL,
	updated_at  INTEGER NOT NULL,
	PRIMARY KEY(job, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX steps_open ON steps(kind, name, job, idx)
	WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched');
CREATE INDEX steps_state ON steps(state, job, idx)
	WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched');
CREATE INDEX steps_rejected ON steps(kind, name) WHERE state = 'rejected' AND wish <> '';
CREATE INDEX steps_wish ON steps(wish, job) WHERE class = 'destructive';
CREATE TABLE requests(
	job        INTEGER NOT NULL,
	idx        INTEGER NOT NULL,
	payload    BLOB NOT NULL,
	nonce      TEXT NOT NULL,
	facts      TEXT NOT NULL,
	roles      TEXT NOT NULL,
	needed     INTEGER NOT NULL,
	offline    INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	issued_at  INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	PRIMARY KEY(job, idx),
	FOREIGN KEY(job, idx) REFERENCES steps(job, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE signatures(
	job       INTEGER NOT NULL,
	idx       INTEGER NOT NULL,
	principal TEXT NOT NULL,
	role      TEXT NOT NULL,
	key       TEXT NOT NULL,
	armor     TEXT NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY(job, idx, principal),
	UNIQUE(job, idx, key),
	FOREIGN KEY(job, idx) REFERENCES requests(job, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency(
	caller TEXT NOT NULL,
	key    TEXT NOT NULL,
	body   TEXT NOT NULL,
	job    INTEGER NOT NULL,            -- 0 where the answer was a refusal
	code   TEXT NOT NULL DEFAULT '',
	detail TEXT NOT NULL DEFAULT '',
	hint   TEXT NOT NULL DEFAULT '',
	at     INTEGER NOT NULL,
	PRIMARY KEY(caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency(at);
CREATE TABLE incarnations(
	incarnation   TEXT PRIMARY KEY,
	kind          TEXT NOT NULL,
	name          TEXT NOT NULL,
	creator       TEXT NOT NULL,
	agent         TEXT NOT NULL,
	job           INTEGER NOT NULL,
	scratch       INTEGER NOT NULL,
	scratch_until INTEGER NOT NULL,
	ended         TEXT NOT NULL DEFAULT '',
	created_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE storage(
	incarnation TEXT NOT NULL REFERENCES incarnations(incarnation),
	id          TEXT NOT NULL,
	job         INTEGER NOT NULL,
	PRIMARY KEY(incarnation, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX storage_id ON storage(id);
CREATE TABLE desired_sets(
	name       TEXT PRIMARY KEY,
	etag       TEXT NOT NULL,
	body       BLOB NOT NULL,
	updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`

// SchemaUsed adds whether the job that made an incarnation may still take it back,
// and the content token at its making.
const SchemaUsed = `
ALTER TABLE incarnations ADD COLUMN used TEXT NOT NULL DEFAULT '';
ALTER TABLE incarnations ADD COLUMN content TEXT NOT NULL DEFAULT '';
`

// SchemaOvertaken forgets a rejected wish if a destructive step asked for the same after the rejection, as overtake does
// from now on. So only rejected wishes need an index. An index of all wishes, which are digests, had each decision
// write a page at a random place.
const SchemaOvertaken = `
UPDATE steps SET wish = '' WHERE state = 'rejected' AND wish <> '' AND EXISTS (SELECT 1 FROM steps later JOIN jobs ON jobs.id = later.job
	WHERE later.wish = steps.wish AND later.class = 'destructive' AND (later.job, later.idx) > (steps.job, steps.idx)
		AND jobs.created_at >= steps.updated_at);
DROP INDEX steps_wish;
DROP INDEX steps_rejected;
CREATE INDEX steps_rejected ON steps(kind, name, wish) WHERE state = 'rejected' AND wish <> '';
`

// SchemaBefore adds what the look at a dispatch showed, as a JSON array. It is empty
// if nothing is kept.
const SchemaBefore = `
ALTER TABLE steps ADD COLUMN before TEXT NOT NULL DEFAULT '';
`
