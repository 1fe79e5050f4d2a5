package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

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
	for _, r := range rows {
		kinds[r.vmid] = r.kind
		if r.vmid >= d.cfg.First && r.vmid <= d.cfg.Last {
			free--
		}
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
		out = append(out, driver.Finding{What: "vmids", State: driver.Bad, Detail: "every number of the range is taken", Hint: "make proxmox.vmids larger"})
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
