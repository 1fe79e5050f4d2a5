package daemon

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/driver/local"
	"gated/internal/driver/proxmox"
	"gated/internal/gate"
	"gated/internal/host/config"
	"gated/internal/host/hub"
	"gated/internal/host/life"
	"gated/internal/host/service"
	"gated/internal/host/signers"
	"gated/internal/host/unit"
	"gated/internal/log/canary"
	"gated/internal/log/checkpoint"
	"gated/internal/reconcile"
)

// daemon is one running gate.
type daemon struct {
	opened      *life.Opened
	config      config.Config
	unit        unit.Place
	gate        *gate.Gate
	backends    *backends
	local       *local.Driver                        // of backends; nil where it is not configured
	proxmox     *proxmox.Driver                      // the same
	pursuer     atomic.Pointer[reconcile.Reconciler] // see wake
	drivers     drivers
	agents      *service.Agents
	scopes      *service.ScopeWatch
	events      *service.Log
	hub         *hub.Link // nil where none is configured
	whole       *wholeLog
	newborn     bool           // this is the first start under the gate's id
	ends        []func() error // see atEnd
	log         *slog.Logger
	started     time.Time
	canary      *canary.Canary
	lookSoon    chan struct{}  // holds one: the canary is due
	list        signers.List   // that it started with
	listIsNew   bool           // the database does not have it yet
	key         checkpoint.Key // of the heads of the audit log
	signers     *signers.File
	revoked     *signers.Revocations            // of the goroutine that reloads
	revokedSays atomic.Pointer[string]          // what the revocation file holds
	soon        chan struct{}                   // holds one: the tick is due
	reloadErr   atomic.Pointer[refusal.Refusal] // of the last reload, nil if it worked
	signersErr  atomic.Pointer[refusal.Refusal] // why the file of signers does not say what is in force, else nil
	waits       atomic.Pointer[string]          // settings that changed on disk and wait for a start
}

// atEnd has something ended before everything that was opened before it.
func (d *daemon) atEnd(end func() error) { d.ends = append(d.ends, end) }

// close ends what was opened, the last first.
func (d *daemon) close() error {
	var failed error
	for _, end := range slices.Backward(d.ends) {
		failed = errors.Join(failed, end())
	}
	return failed
}

func (d *daemon) reconciler() *reconcile.Reconciler { return d.pursuer.Load() }

// now is the wall clock for deadlines and logs; decisions use the gate's own.
func now() time.Time { return time.Now() }
