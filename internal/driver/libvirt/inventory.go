package libvirt

import (
	"context"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// domain is a domain as libvirtd lists it, with its XML.
type domain struct {
	golibvirt.Domain
	xml        domainXML // the persistent definition if there is one; the next start uses it
	names      []named   // files outside of its disks that either definition names
	live       domainXML // the definition that runs; the zero value if the domain does not run
	held       []held    // in xml
	heldLive   []held    // in live
	text       string    // the text of xml
	active     bool
	paused     bool
	starting   bool // paused because it is being started
	persistent bool
	saved      bool // has a managed save image: the next start continues from that state
	snapshots  bool
	broken     error // why its XML cannot be read
}

// sets are libvirtd's lists of domains by property. Each list is one call for all domains;
// otherwise the driver would ask for each domain.
var sets = []struct {
	flag golibvirt.ConnectListAllDomainsFlags
	put  func(*domain)
}{
	{golibvirt.ConnectListDomainsActive, func(d *domain) { d.active = true }},
	{golibvirt.ConnectListDomainsPaused, func(d *domain) { d.paused = true }},
	{golibvirt.ConnectListDomainsPersistent, func(d *domain) { d.persistent = true }},
	{golibvirt.ConnectListDomainsManagedsave, func(d *domain) { d.saved = true }},
	{golibvirt.ConnectListDomainsHasSnapshot, func(d *domain) { d.snapshots = true }},
}

// inventory lists every domain, by name, with its XML. The driver needs all of them, because a
// destroy must not take what another guest uses.
func inventory(ctx context.Context, s *session) ([]*domain, error) {
	list := func(flags golibvirt.ConnectListAllDomainsFlags) ([]golibvirt.Domain, error) {
		return call(ctx, s, func(lv *golibvirt.Libvirt) ([]golibvirt.Domain, error) {
			found, _, err := lv.ConnectListAllDomains(1, flags)
			return found, err
		})
	}
	found, err := list(0)
	if err != nil {
		return nil, err
	}
	all := make([]*domain, 0, len(found))
	by := make(map[golibvirt.UUID]*domain, len(found))
	for _, f := range found {
		dom := &domain{Domain: f}
		all, by[f.UUID] = append(all, dom), dom
	}
	for _, set := range sets {
		if found, err = list(set.flag); err != nil {
			return nil, err
		}
		for _, f := range found {
			if dom := by[f.UUID]; dom != nil {
				set.put(dom)
			}
		}
	}
	return readAll(ctx, s, all)
}

// readAll reads the domains' XML and leaves out domains that are gone meanwhile.
func readAll(ctx context.Context, s *session, all []*domain) ([]*domain, error) {
	kept := all[:0]
	for _, dom := range all {
		err := dom.read(ctx, s)
		if said(err, golibvirt.ErrNoDomain) {
			continue
		}
		if err != nil {
			return nil, err
		}
		kept = append(kept, dom)
	}
	slices.SortFunc(kept, func(a, b *domain) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return kept, nil
}

func (dom *domain) read(ctx context.Context, s *session) (err error) {
	if dom.text, err = describe(ctx, s, dom.Domain, golibvirt.DomainXMLInactive); err != nil {
		return err
	}
	if dom.xml, err = parseXML[domainXML](dom.text); err != nil {
		dom.broken = err
		return nil
	}
	if dom.held, err = heldIn(dom.text); err != nil {
		dom.broken = err
		return nil
	}
	dom.names = namesIn(dom.text)
	if dom.paused {
		reason, err := call(ctx, s, func(lv *golibvirt.Libvirt) (int32, error) {
			_, reason, err := lv.DomainGetState(dom.Domain, 0)
			return reason, err
		})
		if err != nil {
			return err
		}
		dom.starting = reason == int32(golibvirt.DomainPausedStartingUp)
	}
	if dom.active {
		text, err := describe(ctx, s, dom.Domain, 0)
		if err != nil {
			return err
		}
		if dom.live, dom.broken = parseXML[domainXML](text); dom.broken == nil {
			dom.heldLive, dom.broken = heldIn(text)
		}
		dom.names = append(dom.names, namesIn(text)...)
	}
	return nil
}

func describe(ctx context.Context, s *session, dom golibvirt.Domain, flags golibvirt.DomainXMLFlags) (string, error) {
	return call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) { return lv.DomainGetXMLDesc(dom, flags) })
}
