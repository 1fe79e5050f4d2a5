package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// checkNames are the checks by the names that status has for them. All else is about single targets.
var checkNames = map[string]string{"audit log": "audit_log", "revoked keys": "revoked_keys", "rule": "rules", "clock": "clock",
	"journal": "journal", "disk": "disk", "settings": "settings", "signers": "signers", "agents": "agents", "archive": "archive", "canary": "canary",
	"backup": "backup", "drill": "drill", "incidents": "incidents", "database": "database", "state": "state", "sets of the hub": "hub", "relayed operations": "hub",
	"reports to the hub": "hub", "member": "member", "other members": "member", "certificate": "certificate"}

// badChecks are those without which the gate cannot decide, or must not be believed, and the open incidents of break-glass.
var badChecks = []string{"audit_log", "database", "incidents", "journal", "state"}

// checkOf returns the name of the check that an item of status belongs to.
func checkOf(item string) string {
	if strings.HasPrefix(item, "back end ") || strings.HasPrefix(item, "driver of ") {
		return "backends"
	}
	return cmp.Or(checkNames[item], "targets")
}

// Health answers GET /v1/health.
func (d *daemon) Health(ctx context.Context) api.HealthReport {
	checks, _, _ := d.checks(ctx)
	h := api.HealthReport{State: api.HealthOK, Checks: checks}
	for _, c := range checks {
		h.State = worse(h.State, c.State)
	}
	return h
}

// checks reads the database and returns what the daemon watches, each check once.
func (d *daemon) checks(ctx context.Context) ([]api.HealthCheck, looked, error) {
	l, err := d.look(ctx)
	items := append(d.health(), api.Health{Name: "database", OK: true, Detail: "readable"})
	if err != nil {
		items[len(items)-1] = api.Health{Name: "database", Detail: "cannot be read: " + refusal.As(err).Detail}
	} else {
		items = append(items, d.backupHealth(l.backups)...)
		items = append(items, d.drillHealth(l.drills)...)
		items = append(items, d.incidentHealth(l.open)...)
	}
	return checksOf(items), l, err
}

// checksOf makes one check of all items of a name. Its words are those of the first item that is not as it should be.
func checksOf(items []api.Health) []api.HealthCheck {
	var out []api.HealthCheck
	troubles := map[string]int{}
	for _, item := range items {
		c := api.HealthCheck{Name: checkOf(item.Name), State: api.HealthOK, Detail: item.Detail}
		if !item.OK {
			c.State = api.HealthDegraded
			if slices.Contains(badChecks, c.Name) {
				c.State = api.HealthBad
			}
			if c.Name != item.Name {
				c.Detail = item.Name + ": " + item.Detail
			}
			troubles[c.Name]++
		}
		i := slices.IndexFunc(out, func(o api.HealthCheck) bool { return o.Name == c.Name })
		switch {
		case i < 0:
			out = append(out, c)
		case out[i].State == api.HealthOK && c.State != api.HealthOK:
			out[i] = c
		}
	}
	for i := range out {
		if n := troubles[out[i].Name]; n > 1 {
			out[i].Detail += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	slices.SortFunc(out, func(a, b api.HealthCheck) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// worse returns the worse of two states.
func worse(a, b string) string {
	order := []string{api.HealthOK, api.HealthDegraded, api.HealthBad}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// stateHealth says whether the database is still where it was opened. A process keeps files that were removed, so
// reading and writing them proves nothing.
func (d *daemon) stateHealth() api.Health {
	if err := d.opened.Store.InPlace(); err != nil {
		return api.Health{Name: "state", Detail: fmt.Sprintf("the database that is open is gone (%v): what is decided from now on is lost with this process. "+
			"Put the state directory back where it was, or stop the daemon and restore a backup", err)}
	}
	return api.Health{Name: "state", OK: true, Detail: "the database is in its place"}
}
