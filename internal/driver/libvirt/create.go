package libvirt

import (
	"context"
	"fmt"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// firstDisk is the name of a new guest's disk.
const firstDisk = "vda"

func (w *work) create(ctx context.Context) (action, error) {
	t, err := w.cfg.template(w.step.Params.Str("template"))
	if err != nil {
		return nil, err
	}
	pool, err := w.pool(ctx, t.Pool)
	if err != nil {
		return nil, err
	}
	dir, err := poolPath(ctx, w.session, pool)
	if err != nil {
		return nil, err
	}
	if weakPlace(dir) {
		return nil, refusal.New(refusal.Conflict,
			"in the pool %s a disk cannot be told from a later one: %s keeps no birth times, and no generations that can be read", t.Pool, dir).
			WithHint("use a pool on a file system that has them (ext4 with inodes of 256 bytes, XFS, Btrfs) and in a directory that the daemon may search")
	}
	if w.step.Birth == "" || op.CheckName(w.step.Birth) != nil {
		return nil, refusal.New(refusal.Internal, "the step has no birth token")
	}
	return func(ctx context.Context) error {
		vol, where, err := w.newVolume(ctx, pool, volumeName(w.step.Birth, firstDisk, t.Format), t.Format, t.Disk<<20, t.Image)
		if err != nil {
			return err
		}
		id, weak, err := identify(disk{path: where, volume: &vol})
		if weak && err == nil {
			err = fmt.Errorf("the new disk %s could not be told from a later one", where)
		}
		if err != nil {
			w.discard(ctx, vol, false)
			return err
		}
		text := domainText(w.step, t, id, diskText(firstDisk, where, t.Format))
		dom, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (golibvirt.Domain, error) {
			return lv.DomainDefineXMLFlags(text, golibvirt.DomainDefineValidate)
		})
		if w.mark(err) == nil && w.step.Params.Str("state") == running {
			err = w.firstStart(ctx, dom)
		}
		if err != nil {
			w.discard(ctx, vol, false)
		}
		return err
	}, nil
}

// firstStart starts a guest that this step made. If the start fails, the guest is removed.
func (w *work) firstStart(ctx context.Context, dom golibvirt.Domain) error {
	err := w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainCreate(dom) })
	if err == nil || w.session.broken {
		return err
	}
	if undo := w.do(ctx, func(lv *golibvirt.Libvirt) error {
		return lv.DomainUndefineFlags(dom, undefineAll|golibvirt.DomainUndefineKeepNvram)
	}); undo != nil {
		w.session.close() // the driver does not know if the guest exists, so its disk stays too
		return fmt.Errorf("%w; and it cannot be undefined: %w", err, undo)
	}
	return err
}

// domainText is the XML of a new domain.
func domainText(step op.Step, t Template, id op.StorageID, disks string) string {
	p := step.Params
	memory, cpus := t.Memory, t.CPUs
	if p.Has("memory") {
		memory = p.Int("memory")
	}
	if p.Has("cpus") {
		cpus = p.Int("cpus")
	}
	m := mark{uuid: newUUID(), birth: step.Birth, disk: string(id), generation: random(8), protected: p.Bool("protected"), labels: p.Labels("labels")}
	var b strings.Builder
	fmt.Fprintf(&b, `<domain type='%s'><name>%s</name><uuid>%s</uuid><metadata>%s</metadata>`, t.Type, escape(step.Target.Name), m.uuid, m.text())
	fmt.Fprintf(&b, `<memory unit='MiB'>%d</memory><currentMemory unit='MiB'>%d</currentMemory><vcpu>%d</vcpu>`, memory, memory, cpus)
	machine := ""
	if t.Machine != "" {
		machine = fmt.Sprintf(` machine='%s'`, escape(t.Machine))
	}
	fmt.Fprintf(&b, `<os><type%s>hvm</type><boot dev='hd'/></os><features><acpi/><apic/></features>`, machine)
	if t.Type == "kvm" {
		b.WriteString(`<cpu mode='host-passthrough'/>`)
	}
	b.WriteString(`<on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash><devices>`)
	b.WriteString(disks)
	if t.Network != "" {
		fmt.Fprintf(&b, `<interface type='network'><source network='%s'/><model type='virtio'/></interface>`, escape(t.Network))
	}
	b.WriteString(`<console type='pty'/></devices></domain>`)
	return b.String()
}
