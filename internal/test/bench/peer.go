package bench

import (
	"context"
	"database/sql" // package store registers the driver "sqlite"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"gated/client/api"
)

// peer is a plain book of reservations, which a gate is compared with. Each call is
// one SQLite transaction and is on disk before its answer. There is an index, and no
// audit log, no limit and no look at the agent's process.
type peer struct {
	db     *sql.DB
	agents atomic.Int64
}

const peerTables = `CREATE TABLE reservations(id INTEGER PRIMARY KEY, holder TEXT NOT NULL, scope TEXT NOT NULL,
		pattern TEXT NOT NULL, reason TEXT NOT NULL, expires_at INTEGER NOT NULL) STRICT;
	CREATE INDEX reservations_pattern ON reservations(scope, pattern);`

// Peer serves the plain book on a socket in a directory until ctx ends.
func Peer(ctx context.Context, dir string) (err error) {
	at := url.URL{Scheme: "file", Path: filepath.Join(dir, "peer.db"),
		RawQuery: "_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(full)"}
	db, err := sql.Open("sqlite", at.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // because SQLite has one writer
	if _, err := db.ExecContext(ctx, peerTables); err != nil {
		return err
	}
	l, err := net.Listen("unix", socketIn(dir))
	if err != nil {
		return err
	}
	s := &http.Server{Handler: (&peer{db: db}).routes()}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err = s.Serve(l); errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// routes has those calls of the gate that the clients of the bench make.
func (p *peer) routes() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, call func(*http.Request) (string, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := call(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			_, _ = io.WriteString(w, body) // a client that is gone needs no answer
		})
	}
	answer("GET /v1/status", func(*http.Request) (string, error) { return `{}`, nil })
	answer("POST /v1/agents", func(*http.Request) (string, error) {
		return fmt.Sprintf(`{"token":"agent%d"}`, p.agents.Add(1)), nil
	})
	answer("POST /v1/reservations", p.reserve)
	answer("DELETE /v1/reservations/{id}", p.release)
	return mux
}

func (p *peer) reserve(r *http.Request) (answer string, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	var in api.Reserve
	if err := api.DecodeBody(body, &in); err != nil {
		return "", err
	}
	holder, patterns, at := r.Header.Get(api.TokenHeader), strings.Join(in.Patterns, "\n"), now()
	err = p.transaction(r.Context(), func(tx *sql.Tx) error {
		var taken int64
		err := tx.QueryRow(`SELECT id FROM reservations WHERE scope = ? AND pattern = ? AND expires_at > ? AND holder <> ?`,
			in.Scope.Path, patterns, at.UnixNano(), holder).Scan(&taken)
		if err == nil {
			return fmt.Errorf("reservation %d has this path", taken)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		done, err := tx.Exec(`INSERT INTO reservations(holder, scope, pattern, reason, expires_at) VALUES(?, ?, ?, ?, ?)`,
			holder, in.Scope.Path, patterns, in.Reason, at.Add(time.Hour).UnixNano())
		if err != nil {
			return err
		}
		id, err := done.LastInsertId()
		answer = fmt.Sprintf(`{"id":"%d"}`, id)
		return err
	})
	return answer, err
}

func (p *peer) release(r *http.Request) (string, error) {
	return `{}`, p.transaction(r.Context(), func(tx *sql.Tx) error {
		done, err := tx.Exec(`DELETE FROM reservations WHERE id = ? AND holder = ?`, r.PathValue("id"),
			r.Header.Get(api.TokenHeader))
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); n != 1 || err != nil {
			return errors.Join(err, errors.New("the caller has no such reservation"))
		}
		return nil
	})
}

func (p *peer) transaction(ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
