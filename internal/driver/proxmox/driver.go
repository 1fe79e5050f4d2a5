package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Name is the name of the back end.
const Name = "proxmox"

// lookers is how many guests the driver looks at at the same time. It bounds the open
// connections, too.
const lookers = 8

// Driver is the Proxmox VE driver. It is safe for concurrent use.
type Driver struct {
	cfg   Config
	api   *client
	ops   []string
	seen  lookedAt
	kept  remembered[[]drive] // the disks of snapshots, which change only if the guest moves to another node
	told  remembered[told]    // whose backups are
	known known

	mu        sync.Mutex
	taken     map[int64]bool      // vmids that steps are using for new guests
	recent    map[string]int64    // vmids of guests that this process made, by name
	next      int64               // where the search for a free vmid begins
	journaled bool                // the journal's vmids are known
	listed    map[storage][]int64 // the numbers that each storage had at its last list
	making    map[string]bool     // tasks of this process that make guests
	owing     map[string]owed     // by task: what the driver does when the task has ended
	whole     bool                // no earlier step left a flag off

	working working // guests that a step is changing
}

var _ driver.Backend = (*Driver)(nil)

// New reads the token and the certificates to trust. It does not connect: the first look finds
// out if the cluster is away. Refusals are BadParams, Conflict and Malformed.
func New(cfg Config) (*Driver, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	api, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, api: api, seen: lookedAt{guests: map[int64]kept{}}, known: known{names: map[int64]string{}, given: map[int64]bool{}, first: cfg.First, last: cfg.Last}, taken: map[int64]bool{}, recent: map[string]int64{}, next: cfg.First,
		making: map[string]bool{}, owing: map[string]owed{}, listed: map[storage][]int64{}}
	for _, spec := range op.Catalogue() {
		if p, ok := preparers[spec.Name]; ok && p != nil && (cfg.BackupStorage != "" || !strings.Contains(spec.Name, "backup")) {
			d.ops = append(d.ops, spec.Name)
		}
	}
	return d, nil
}

// Kind returns "guest".
func (d *Driver) Kind() string { return "guest" }

// Name returns "proxmox".
func (d *Driver) Name() string { return Name }

// Close has nothing to close. Tasks go on.
func (d *Driver) Close() error { return nil }

// Observe looks at one guest and uses nothing that List remembers. Its refusals are Unavailable
// and, for a name that is not clear, Conflict.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	g, o, err := d.look(ctx, l)
	step := op.Step{Op: l.Op, Target: l.Target, Params: l.Params, Incarnation: l.Incarnation}
	if prepare := preparers[l.Op]; err == nil && g != nil && prepare != nil && driver.Fits(step, o) == nil {
		// It changes nothing: a step on a guest that is there reserves no number.
		_, no := prepare(d, ctx, step, g)
		o.Foresee(no)
	}
	return o, err
}

// privilege is a privilege that the token needs, and its purpose.
type privilege struct {
	name   string
	on     string // "/vms", or "/storage" of the configured storages
	why    string
	backup bool // only needed if there are backups
}

var privileges = []privilege{
	{"VM.Audit", "/vms", "to see guests: what it does not cover does not exist for the gate", false},
	{"VM.Allocate", "/vms", "to create and destroy", false},
	{"VM.Clone", "/vms", "to clone", false},
	{"VM.Config.Options", "/vms", "for the mark, the labels and the protection", false},
	{"VM.Config.Memory", "/vms", "for memory", false},
	{"VM.Config.CPU", "/vms", "for cpus", false},
	{"VM.Config.Disk", "/vms", "for disks", false},
	{"VM.Config.Network", "/vms", "for the network of new guests", false},
	{"VM.Config.HWType", "/vms", "for the disk controller of new machines", false},
	{"VM.PowerMgmt", "/vms", "to start and stop", false},
	{"VM.Snapshot", "/vms", "for snapshots", false},
	{"VM.Snapshot.Rollback", "/vms", "to restore snapshots", false},
	{"VM.Backup", "/vms", "for backups", true},
	{"Datastore.Audit", "/storage", "to see storages", false},
	{"Datastore.AllocateSpace", "/storage", "for disks and backups", false},
	{"Datastore.Allocate", "/storage", "to delete backups", true},
}

// Check looks if the cluster answers, if the token has its privileges, and if the configured
// node, storages and templates exist. It changes nothing.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	o, err := d.api.get(ctx, "/version", nil)
	if err != nil {
		return []driver.Finding{unreached(err)}
	}
	out := []driver.Finding{{What: "reachable", State: driver.OK, Detail: d.cfg.URL + " answers, and is trusted"}, version(o["version"])}
	out = append(out, d.permissions(ctx)...)
	out = append(out, d.places(ctx)...)
	return append(out, d.templates(ctx)...)
}

func unreached(err error) driver.Finding {
	f := driver.Finding{What: "reachable", State: driver.Bad, Detail: op.Shown(worded(err)), Hint: "see that proxmox.url is right and that pveproxy runs there"}
	var pin *pinError
	switch {
	case errors.As(err, &pin):
		f.What, f.Hint = "certificate", "if the node has a new certificate, put its fingerprint into proxmox.fingerprint: pvenode cert info"
	case isAnswered(err, 401):
		f.What, f.Hint = "token", "pveum user token list USER; put a new one into proxmox.token_file"
	}
	return f
}

// tried are the versions of Proxmox VE whose API the requests were checked against.
const tried = "9."

func version(v string) driver.Finding {
	f := driver.Finding{What: "version", State: driver.OK, Detail: "Proxmox VE " + op.Shown(v)}
	if !strings.HasPrefix(v, tried) {
		f.State = driver.Note
		f.Detail += "; the driver's requests were compared with the API of 9.1"
		f.Hint = "try scripts/try-proxmox.sh on a test node of that version"
	}
	return f
}

// permissions finds the privileges that the token lacks, by name.
func (d *Driver) permissions(ctx context.Context) []driver.Finding {
	held, err := d.held(ctx)
	if err != nil {
		return []driver.Finding{{What: "permissions", State: driver.Note, Detail: "cannot be read: " + op.Shown(worded(err))}}
	}
	var out []driver.Finding
	for _, p := range privileges {
		if p.backup && d.cfg.BackupStorage == "" {
			continue
		}
		f := driver.Finding{What: "permission " + p.name, State: driver.OK, Detail: "held"}
		if !d.has(held, p) {
			f.State, f.Detail = driver.Bad, "the token lacks it, "+p.why
			f.Hint = fmt.Sprintf("pveum role modify Gated --append 1 --privs %s; pveum acl modify %s --tokens 'USER!NAME' --roles Gated", p.name, d.place(p))
		}
		out = append(out, f)
	}
	return out
}

// held asks for the token's privileges, by path. A value says if the privilege also holds below
// the path.
func (d *Driver) held(ctx context.Context) (map[string]object, error) {
	data, err := d.api.send(ctx, "GET", "/access/permissions", nil)
	if err != nil {
		return nil, err
	}
	return decodeTree(data)
}

// has reports whether the token has a privilege for its guests or its storage: at that very
// path, or above it for everything below.
func (d *Driver) has(held map[string]object, p privilege) bool {
	if at := d.place(p); at != p.on && held[at][p.name] != "" {
		return true
	}
	return isTrue(held["/"][p.name]) || isTrue(held[p.on][p.name])
}

// place is the narrowest path on which the privilege would be enough.
func (d *Driver) place(p privilege) string {
	switch {
	case p.on == "/storage":
		return "/storage/" + d.storageFor(p)
	case p.on == "/vms" && d.cfg.Pool != "":
		return "/pool/" + d.cfg.Pool
	}
	return p.on
}

// sees refuses to make guests if the token would not see them, because their names would look
// free.
func (d *Driver) sees(ctx context.Context) error {
	held, err := d.held(ctx)
	if err != nil {
		return unreachable(err)
	}
	if p := privileges[0]; !d.has(held, p) {
		return refusal.New(refusal.Unavailable, "the token lacks %s on %s, %s", p.name, d.place(p), p.why).
			WithHint("gated doctor says what to type")
	}
	return nil
}

func (d *Driver) storageFor(p privilege) string {
	if p.backup {
		return d.cfg.BackupStorage
	}
	return d.cfg.Storage
}

// places looks for the configured node and storages.
func (d *Driver) places(ctx context.Context) []driver.Finding {
	if d.cfg.Node == "" {
		return []driver.Finding{{What: "node", State: driver.Note, Detail: "none is named: guests can be made as clones alone"}}
	}
	list, err := d.api.list(ctx, path("nodes", d.cfg.Node, "storage"), nil)
	if err != nil {
		return []driver.Finding{{What: "node " + d.cfg.Node, State: driver.Bad, Detail: op.Shown(worded(err)), Hint: "see proxmox.node in gated.yaml"}}
	}
	out := []driver.Finding{{What: "node " + d.cfg.Node, State: driver.OK, Detail: "answers"}}
	for _, want := range []struct{ name, content string }{{d.cfg.Storage, ""}, {d.cfg.BackupStorage, "backup"}} {
		if want.name == "" {
			continue
		}
		f := driver.Finding{What: "storage " + want.name, State: driver.Bad, Detail: "the node has no such storage, or the token cannot see it",
			Hint: "pvesm status on the node lists them"}
		for _, o := range list {
			if o["storage"] != want.name {
				continue
			}
			f.State, f.Detail, f.Hint = driver.OK, "there, for "+op.Shown(o["content"]), ""
			if want.content != "" && !slices.Contains(strings.Split(o["content"], ","), want.content) {
				f.State, f.Detail, f.Hint = driver.Bad, "it is not for "+want.content, "pvesm set "+want.name+" --content "+want.content+",…"
			}
		}
		out = append(out, f)
	}
	return out
}

// templates looks at the guests and files that new guests are copied from. It also looks for
// guests that the gate cannot name.
func (d *Driver) templates(ctx context.Context) []driver.Finding {
	rows, err := d.rows(ctx)
	if err != nil {
		return []driver.Finding{{What: "guests", State: driver.Bad, Detail: refusal.As(err).Detail}}
	}
	kinds, odd, free := map[int64]string{}, 0, d.cfg.Last-d.cfg.First+1
	if err := d.readJournal(ctx); err != nil {
		return []driver.Finding{{What: "guests", State: driver.Bad, Detail: refusal.As(err).Detail}}
	}
	free -= d.known.count()
	for _, r := range rows {
		kinds[r.vmid] = r.kind
		if !r.template && op.CheckName(r.name) != nil {
			odd++
		}
	}
	out := []driver.Finding{{What: "guests", State: driver.OK, Detail: fmt.Sprintf("%d are seen", len(rows))}}
	if odd > 0 {
		out = append(out, driver.Finding{What: "names", State: driver.Note,
			Detail: fmt.Sprintf("%d of the guests have names that are none of a target; the gate does not have them", odd)})
	}
	if free <= 0 {
		out = append(out, driver.Finding{What: "vmids", State: driver.Bad, Detail: "each number of the range has a guest or had one", Hint: "make proxmox.vmids larger: a number is not given a second time"})
	}
	names := make([]string, 0, len(d.cfg.Templates))
	for name := range d.cfg.Templates {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t := d.cfg.Templates[name]
		if t.Clone != 0 && kinds[t.Clone] != t.Kind {
			out = append(out, driver.Finding{What: "template " + name, State: driver.Bad,
				Detail: strconv.FormatInt(t.Clone, 10) + " is no " + t.Kind + " that the token can see", Hint: "see proxmox.templates in gated.yaml"})
		}
	}
	return out
}

// Prepare refuses a step that cannot work. If the last request of a step takes long, it is a
// task of Proxmox VE. The action returns the task's id at once, and waits for the tasks before
// it.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (now op.Observed, run driver.Action, err error) {
	prepare, ok := preparers[step.Op]
	if !ok {
		return now, run, refusal.New(refusal.UnknownOp, "the Proxmox VE driver does not know %q", step.Op)
	}
	cleanup(d.working.begin(step.Target.Name))
	g, now, err := d.look(ctx, step.Look())
	if err == nil {
		err = driver.Fits(step, now)
	}
	if err == nil && g != nil {
		err = unlocked(step, g)
	}
	if err != nil {
		return now, run, err
	}
	act, err := prepare(d, ctx, step, g)
	if act.end != nil {
		cleanup(act.end)
	}
	return now, driver.Does(func(ctx context.Context) (driver.Result, error) {
		if g != nil {
			defer d.seen.forget(g.vmid)
		}
		if g.bare() && step.Op != "guest.set-config" { // which sets the flag in its one request, of this look's digest
			guarded, err := d.guarded(ctx, g)
			if err == nil {
				act, err = prepare(d, ctx, step, guarded)
			}
			if err != nil {
				return driver.Result{}, later(err)
			}
		}
		done, err := act.do(ctx)
		return done, later(err)
	}), err
}

// later marks the error of a step that a look stopped which got no answer, because the next one may get it.
func later(err error) error {
	if errors.Is(err, refusal.Unavailable) && !driver.IsUnknown(err) {
		return driver.Transient(err)
	}
	return err
}

// unlocked refuses, for now, a guest that Proxmox VE is working on. A guest suspended to disk
// has a lock too, which its start removes.
func unlocked(step op.Step, g *guest) error {
	if g.lock == "" || g.lock == "suspended" && step.Op == "guest.start" {
		return nil
	}
	return refusal.New(refusal.Unavailable, "%s is locked in Proxmox VE: %s", step.Target, op.Shown(g.lock)).
		WithHint("it is tried again; a lock that stays is looked into on the node")
}

// action does a step's work after its permit was used.
type action struct {
	do  driver.Work
	end func() // releases what the preparer reserved; nil if that is nothing
}

func does(fn driver.Work) action {
	return action{do: fn}
}

// asTask is the action of a single request that begins a task.
func (d *Driver) asTask(what, method, path string, v values) action {
	return does(func(ctx context.Context) (driver.Result, error) {
		task, err := d.api.start(ctx, method, path, v)
		return driver.Result{Task: task}, worked(what, err)
	})
}

// already is the action of a step that has nothing to change.
func already(detail string) action {
	return does(func(context.Context) (driver.Result, error) { return driver.Result{Detail: detail}, nil })
}

type preparer func(*Driver, context.Context, op.Step, *guest) (action, error)

// preparers check what a step needs and change nothing. They return the action of the step. The
// guest is nil for a step that makes one.
var preparers = map[string]preparer{
	"guest.create":          (*Driver).prepareCreate,
	"guest.clone":           (*Driver).prepareClone,
	"guest.start":           (*Driver).prepareStart,
	"guest.stop":            (*Driver).prepareStop,
	"guest.restart":         (*Driver).prepareRestart,
	"guest.set-config":      (*Driver).prepareSetConfig,
	"guest.snapshot":        (*Driver).prepareSnapshot,
	"guest.snapshot-delete": (*Driver).prepareSnapshotDelete,
	"guest.restore":         (*Driver).prepareRestore,
	"guest.disk-create":     (*Driver).prepareDiskCreate,
	"guest.disk-resize":     (*Driver).prepareDiskResize,
	"guest.disk-detach":     (*Driver).prepareDiskDetach,
	"guest.disk-delete":     (*Driver).prepareDiskDelete,
	"guest.backup":          (*Driver).prepareBackup,
	"guest.backup-restore":  (*Driver).prepareBackupRestore,
	"guest.backup-delete":   (*Driver).prepareBackupDelete,
	"guest.destroy":         (*Driver).prepareDestroy,
}

func (d *Driver) prepareStart(_ context.Context, _ op.Step, g *guest) (action, error) {
	if g.status == Running {
		return already("it runs already"), nil
	}
	return d.asWriter("start", g, "start", nil), g.startsAsItIs()
}

// rewinding are the arguments of QEMU that take disks back to a snapshot.
var rewinding = pattern(`(^|\s)['"]?--?loadvm['"]?(\s|$)|\brrsnapshot=`)

// startsAsItIs refuses to start a machine whose arguments have QEMU take its disks back. A start is benign, and what was written
// since would be lost.
func (g *guest) startsAsItIs() error {
	if !g.rewinds {
		return nil
	}
	return refusal.New(refusal.Conflict, "the args of the guest %d may have QEMU take its disks back to a snapshot with each start", g.vmid).
		WithHint("take that out of its args; guest.restore goes back to a snapshot once")
}

// asWriter is asTask for a step after which the guest writes its disks. Right before, it asks again who else has them.
func (d *Driver) asWriter(what string, g *guest, to string, v values) action {
	start := d.asTask(what, http.MethodPost, g.path("status", to), v)
	return does(func(ctx context.Context) (driver.Result, error) {
		if err := d.sharesNoMore(ctx, g); err != nil {
			return driver.Result{}, err
		}
		return start.do(ctx)
	})
}

// prepareStop asks the guest to shut down. At the end of its grace, the same task stops the
// guest by force.
func (d *Driver) prepareStop(_ context.Context, _ op.Step, g *guest) (action, error) {
	if g.status == Stopped {
		return already("it is stopped already"), nil
	}
	return d.asTask("shut down", http.MethodPost, g.path("status", "shutdown"),
		values{"timeout": d.grace(), "forceStop": "1"}), nil
}

func (d *Driver) grace() string { return fmt.Sprint(int64(d.cfg.StopGrace.Seconds())) }

// prepareRestart reboots the guest, so that pending changes take effect. If the guest does not
// react within its grace, the task fails and the guest goes on running.
func (d *Driver) prepareRestart(ctx context.Context, step op.Step, g *guest) (action, error) {
	if g.status == Stopped {
		return d.prepareStart(ctx, step, g)
	}
	return d.asWriter("reboot", g, "reboot", values{"timeout": d.grace()}), g.startsAsItIs()
}
