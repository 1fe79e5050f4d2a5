package reserve

// Schema is the tables of this package. What has ended has no rows: the audit log is its history. Times are Unix
// nanoseconds. Device and inode are unsigned 64-bit numbers, stored as the signed numbers with the same bits.
//
// A row of reservation_patterns has the path of prefixOf, absolute and with case folded. What may overlap the pattern
// lies above that path, at it or below it (search.go).
const Schema = `
CREATE TABLE scopes(
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	path      TEXT NOT NULL,
	device    INTEGER NOT NULL,
	inode     INTEGER NOT NULL,
	fold      INTEGER NOT NULL,
	at        INTEGER NOT NULL,
	last_step TEXT NOT NULL DEFAULT '', -- of operators, that was applied here
	UNIQUE(path, device, inode)
) STRICT;
CREATE TABLE reservations(
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	scope        INTEGER NOT NULL REFERENCES scopes(id),
	agent        TEXT NOT NULL,         -- empty for a bare uid
	uid          INTEGER NOT NULL,
	registration INTEGER NOT NULL,      -- 0 for a bare uid
	mode         TEXT NOT NULL CHECK (mode IN ('exclusive', 'shared')),
	fold         INTEGER NOT NULL,      -- how its patterns are read
	digest       BLOB NOT NULL,         -- of fold and patterns
	weight       INTEGER NOT NULL,      -- of patterns, for the limits
	reason       TEXT NOT NULL,
	keep         INTEGER NOT NULL,
	created_at   INTEGER NOT NULL,
	expires_at   INTEGER NOT NULL,
	due_at       INTEGER NOT NULL,      -- when its end is announced; then expires_at
	CHECK (due_at <= expires_at)
) STRICT;
CREATE INDEX reservations_due ON reservations(due_at);
CREATE INDEX reservations_scope ON reservations(scope);
CREATE INDEX reservations_holder ON reservations(uid, agent, scope, expires_at, weight);
CREATE TABLE reservation_patterns(
	prefix      TEXT NOT NULL,
	reservation INTEGER NOT NULL REFERENCES reservations(id) ON DELETE CASCADE,
	pattern     TEXT NOT NULL,
	PRIMARY KEY(prefix, reservation, pattern)
) STRICT, WITHOUT ROWID;
CREATE INDEX reservation_patterns_of ON reservation_patterns(reservation);
`
