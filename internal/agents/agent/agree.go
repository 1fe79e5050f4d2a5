package agent

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Agree makes the registry hold the rows that the gate's active member has for this host. It enters a row whose process
// lives. It forgets a registration without a row, if it is from before settled: a newer one may not have come back yet.
// ended are rows whose process has ended, which the active member does not know.
func (r *Registry) Agree(rows []Registration, settled time.Time) (ended []Registration, err error) {
	r.admission.Lock()
	defer r.admission.Unlock()
	there := map[int64]bool{}
	for _, reg := range rows {
		there[reg.ID] = true
		if r.named(reg.Name) {
			continue
		}
		e, err := r.find(reg)
		if err != nil {
			return ended, err
		}
		if e == nil {
			ended = append(ended, reg)
			continue
		}
		if r.binds(e.Process.PID) { // it would take the pid from another name
			e.drop()
			continue
		}
		if err := r.enter(e); err != nil {
			e.drop()
			return ended, err
		}
	}
	for _, reg := range r.All() {
		if !there[reg.ID] && reg.At.Before(settled) {
			r.forget(reg)
		}
	}
	return ended, nil
}

// named reports whether a name is in the registry, also if it is not committed.
func (r *Registry) named(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byName[name] != nil
}

// binds reports whether a process, 0 for none, has a name here.
func (r *Registry) binds(pid int) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return pid != 0 && r.byPID[pid] != nil
}

// forget drops a registration, and does not call Config.Ended.
func (r *Registry) forget(reg Registration) {
	r.mu.RLock()
	e := r.byName[reg.Name]
	r.mu.RUnlock()
	if e != nil && e.committed && e.ID == reg.ID {
		r.leave(e)
	}
}

// Find returns the row of a name.
func Find(tx *store.Tx, name string) (r Registration, ok bool, err error) {
	r, err = scan(tx.QueryRow(sqlAgent+` WHERE name = ?`, name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Registration{}, false, nil
	}
	return r, err == nil, err
}

// Same reports whether two have one name, of one account, that is bound to one process or token.
func (r Registration) Same(o Registration) bool {
	return r.Name == o.Name && r.Account() == o.Account() && r.Process == o.Process && r.Token == o.Token
}

// Room refuses, as OverLimit, one registration more than a member or one of its uids may have.
func Room(tx *store.Tx, r Registration) error {
	var all, own, tokens int
	err := tx.QueryRow(`SELECT count(*), coalesce(sum(uid = ?2), 0), coalesce(sum(uid = ?2 AND token <> ''), 0) FROM agents WHERE member = ?1`,
		r.Member, int64(r.UID)).Scan(&all, &own, &tokens)
	switch {
	case err != nil:
		return fmt.Errorf("count agents: %w", err)
	case all >= MaxAgents:
		err = refusal.New(refusal.OverLimit, "%d agents of member %s are registered, the most there may be", all, r.Member)
	case own >= MaxAgentsOfUID:
		err = refusal.New(refusal.OverLimit, "uid %v has %d registered agents, the most that one uid may have", r.Account(), own)
	case r.Token != "" && tokens >= MaxTokensOfUID:
		err = refusal.New(refusal.OverLimit, "uid %v has %d agents with tokens, the most that one uid may have", r.Account(), tokens)
	default:
		return nil
	}
	return refusal.As(err).WithHint(giveUp)
}

// Check refuses, as Malformed, what no registry makes. Another member said it.
func (r Registration) Check() error {
	process := r.Process.PID > 1 && r.Process.Start > 0 && len(r.Process.Boot) > 0 && len(r.Process.Boot) <= 64 && r.Token == ""
	if token := len(r.Token) == len(hashOf("")) && r.Process == (proc.ID{}); process == token {
		return refusal.New(refusal.Malformed, "a registration is bound to one process or to one token")
	}
	return nil
}
