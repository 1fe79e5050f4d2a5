package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// session is one connection that makes one call at a time. Each call ends at its deadline. The
// connection is then closed, and the driver does not use it again.
type session struct {
	lv      *golibvirt.Libvirt
	conn    net.Conn
	timeout time.Duration
	broken  bool
}

// errAway marks an error of the connection. libvirtd may have done the work of the call.
var errAway = errors.New("libvirtd does not answer")

// maxIdle is how many idle connections the driver keeps.
const maxIdle = 4

// session takes an idle connection or makes a new one.
func (d *Driver) session(ctx context.Context) (*session, error) {
	for {
		select {
		case s := <-d.idle:
			if s.lv.IsConnected() {
				return s, nil
			}
			s.close()
			continue
		default:
		}
		return d.connect(ctx)
	}
}

func (d *Driver) connect(ctx context.Context) (*session, error) {
	var dialer net.Dialer
	timed, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	conn, err := dialer.DialContext(timed, "unix", d.cfg.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	g := &guard{Conn: conn}
	s := &session{lv: golibvirt.NewWithDialer(dialed{g}), conn: conn, timeout: d.cfg.Timeout}
	_, err = call(ctx, s, func(lv *golibvirt.Libvirt) (uint64, error) {
		if err := lv.ConnectToURI(golibvirt.ConnectURI(DefaultURI)); err != nil {
			return 0, err
		}
		return lv.ConnectGetLibVersion()
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// dialed is a dialer that returns an open connection.
type dialed struct{ conn net.Conn }

// Dial returns the open connection.
func (d dialed) Dial() (net.Conn, error) { return d.conn, nil }

// release keeps a working connection for later.
func (d *Driver) release(s *session) {
	if s.broken {
		s.close()
		return
	}
	select {
	case d.idle <- s:
	default:
		s.close()
	}
}

// close ends the connection. It has no error that matters to a caller.
func (s *session) close() { s.broken = true; _ = s.conn.Close() }

// call makes one call within the session's timeout.
func call[T any](ctx context.Context, s *session, fn func(*golibvirt.Libvirt) (T, error)) (T, error) {
	timed, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return longCall(timed, s, fn)
}

// longCall makes one call that has until the end of ctx. If libvirtd does not answer, the
// call's goroutine ends when the connection is closed.
func longCall[T any](ctx context.Context, s *session, fn func(*golibvirt.Libvirt) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	if s.broken {
		return none, errAway
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("what libvirtd answered cannot be read: %v", p)
			}
			answered <- a
		}()
		a.v, a.err = fn(s.lv)
	}()
	select {
	case <-ctx.Done():
		s.close()
		return none, fmt.Errorf("%w: %w", errAway, ctx.Err())
	case a := <-answered:
		var said golibvirt.Error
		if a.err != nil && !errors.As(a.err, &said) {
			s.close()
			return none, fmt.Errorf("%w: %w", errAway, a.err)
		}
		return a.v, a.err
	}
}

// do is call for a function that only returns an error.
func do(ctx context.Context, s *session, fn func(*golibvirt.Libvirt) error) error {
	_, err := call(ctx, s, func(lv *golibvirt.Libvirt) (struct{}, error) { return struct{}{}, fn(lv) })
	return err
}

// long is do for as long as ctx lasts.
func long(ctx context.Context, s *session, fn func(*golibvirt.Libvirt) error) error {
	_, err := longCall(ctx, s, func(lv *golibvirt.Libvirt) (struct{}, error) { return struct{}{}, fn(lv) })
	return err
}

// said reports whether err is one of these answers of libvirtd.
func said(err error, codes ...golibvirt.ErrorNumber) bool {
	var e golibvirt.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == uint32(c) {
			return true
		}
	}
	return false
}

// unavailable words an error that happened before the driver changed anything.
func (d *Driver) unavailable(err error) error {
	var r *refusal.Refusal
	if err == nil || errors.As(err, &r) {
		return err
	}
	if errors.Is(err, errAway) {
		return refusal.New(refusal.Unavailable, "%v (%s)", err, d.cfg.Socket).
			WithHint("is libvirtd up, and may gated open its socket? gated doctor says more")
	}
	return refusal.New(refusal.Unavailable, "libvirtd refuses: %s", op.Shown(err.Error()))
}

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
