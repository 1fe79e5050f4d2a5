package libvirt

import (
	"context"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
)

func (w *work) setConfig(context.Context) (action, error) {
	p := w.step.Params
	if c := p.Str("command"); c != "" {
		return nil, refusal.New(refusal.BadParams, "a guest of libvirt runs no command of gated.yaml (%s)", op.Shown(c))
	}
	if err := w.defined(); err != nil {
		return nil, err
	}
	c := changes{memory: p.Int("memory") << 10, cpus: p.Int("cpus")}
	if p.Has("labels") || p.Has("protected") {
		m := w.guest.mark
		if p.Has("labels") {
			m.labels = p.Labels("labels")
		}
		if p.Has("protected") {
			m.protected = p.Bool("protected")
		}
		c.mark = &m
	}
	return func(ctx context.Context) error {
		if w.guest.active && (c.memory > 0 || c.cpus > 0) {
			w.detail = "memory and CPUs are as wished from the next start on"
		}
		return w.redefine(ctx, c)
	}, nil
}

// defined refuses a domain without a persistent definition.
func (w *work) defined() error {
	if w.guest.persistent {
		return nil
	}
	return refusal.New(refusal.Conflict, "%s has no definition: it was undefined while it runs", w.step.Target).
		WithHint("stop it (it keeps its definition then), or define it again with virsh")
}

// redefine changes the persistent definition in one call, which libvirtd accepts whole or not
// at all. It reads the definition with its secrets, because they would be lost otherwise. It
// does not keep the secrets.
func (w *work) redefine(ctx context.Context, c changes) error {
	text, err := describe(ctx, w.session, w.guest.Domain, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	if text, err = edit(text, c); err != nil {
		return err
	}
	err = w.do(ctx, func(lv *golibvirt.Libvirt) error { _, err := lv.DomainDefineXMLFlags(text, 0); return err })
	if err != nil || c.mark == nil || !w.guest.active {
		return err
	}
	// It also changes the metadata of the running domain, because only that stays if a caller
	// undefines the domain.
	return w.do(ctx, func(lv *golibvirt.Libvirt) error {
		return lv.DomainSetMetadata(w.guest.Domain, int32(golibvirt.DomainMetadataElement), golibvirt.OptString{inner(c.mark.text())},
			golibvirt.OptString{"gated"}, golibvirt.OptString{namespace}, golibvirt.DomainAffectLive)
	})
}

// inner is the element without the namespace, because DomainSetMetadata declares the namespace
// itself.
func inner(text string) string {
	text = strings.Replace(text, ` xmlns:gated="`+namespace+`"`, "", 1)
	return strings.ReplaceAll(strings.ReplaceAll(text, "<gated:", "<"), "</gated:", "</")
}
