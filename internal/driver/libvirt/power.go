package libvirt

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// glance is the time between two looks at a guest that was asked to shut down.
const glance = 250 * time.Millisecond

func (w *work) start(ctx context.Context) (action, error) {
	if w.guest.active {
		return func(context.Context) error { return nil }, nil // it runs already
	}
	return w.powerOn, w.startsAsItIs(ctx)
}

// startsAsItIs refuses to start a guest whose command line has QEMU take its disks back to a snapshot, or whose saved state has more than
// the guest. A start is benign, and what was written since would be lost.
func (w *work) startsAsItIs(ctx context.Context) error {
	x, err := parseXML[definitionXML](w.guest.text)
	if err != nil {
		return err
	}
	for _, a := range argumentsOf(x.Args) {
		if a.option == "loadvm" || a.option == "icount" && (a.settings == nil || a.settings["rrsnapshot"] != "") {
			return refusal.New(refusal.Conflict, "the QEMU command line of %s may take its disks back to a snapshot with each start: -%s %s",
				w.step.Target, a.option, op.Shown(a.value)).
				WithHint("take that out of its definition (virsh edit); guest.restore goes back to a snapshot once")
		}
	}
	return w.goesOn(ctx)
}

// startable looks again, and refuses what a start would write by now and would not have at the look that the permit is for: other hands may
// have given a disk of the guest to another guest since.
func (w *work) startable(ctx context.Context) error {
	now, err := w.again(ctx)
	if err != nil {
		return err
	}
	for _, shared := range now.guest.shares {
		if !slices.Contains(w.guest.shares, shared) {
			return stale("%s would write %s, which was not so before", w.step.Target, shared)
		}
	}
	return now.startsAsItIs(ctx)
}

func (w *work) powerOn(ctx context.Context) error {
	if err := w.startable(ctx); err != nil {
		return err
	}
	return w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainCreate(w.guest.Domain) })
}

func (w *work) stop(context.Context) (action, error) { return w.shutDown, nil }

// restart stops the guest and starts it, so that the pending configuration takes effect. A
// reboot alone would not read the definition again.
func (w *work) restart(ctx context.Context) (action, error) {
	if err := w.startsAsItIs(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := w.startable(ctx); err != nil { // it runs, and goes on
			return err
		}
		if err := w.shutDown(ctx); err != nil {
			return err
		}
		return w.powerOn(ctx)
	}, nil
}

// shutDown asks the guest to end and powers it off after the grace. A guest without an
// operating system does not react. If a guest was undefined while it ran, shutDown saves its
// definition first, because a stop must not lose the guest.
func (w *work) shutDown(ctx context.Context) error {
	if !w.guest.active {
		return nil
	}
	if err := w.keepDefinition(ctx); err != nil {
		return err
	}
	dom := w.guest.Domain
	// A paused guest does not react. For any reason, the power off is next.
	asked := w.do(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainShutdown(dom) })
	if asked == nil {
		ended, err := w.ends(ctx, w.cfg.StopGrace)
		if err != nil {
			return err
		}
		if ended {
			w.detail = "it shut down"
			return nil
		}
	}
	w.detail = fmt.Sprintf("powered off: it did not shut down within %s", w.cfg.StopGrace)
	return w.powerOff(ctx)
}

// keepDefinition makes a transient domain persistent.
func (w *work) keepDefinition(ctx context.Context) error {
	if w.guest.persistent {
		return nil
	}
	text, err := describe(ctx, w.session, w.guest.Domain, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	err = w.do(ctx, func(lv *golibvirt.Libvirt) error { _, err := lv.DomainDefineXMLFlags(text, 0); return err })
	w.guest.persistent = err == nil
	return err
}

// ends waits until the guest has stopped, for at most grace.
func (w *work) ends(ctx context.Context, grace time.Duration) (bool, error) {
	over := time.NewTimer(grace)
	defer over.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		active, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (int32, error) { return lv.DomainIsActive(w.guest.Domain) })
		if said(err, golibvirt.ErrNoDomain) {
			return true, nil
		}
		if err != nil || active == 0 {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return false, nil
		case <-tick.C:
		}
	}
}

// powerOff ends the guest's process. If the process has ended already, that is no error. A
// guest without a definition gets one first, so that it stays visible if the step fails.
func (w *work) powerOff(ctx context.Context) error {
	if err := w.keepDefinition(ctx); err != nil {
		return err
	}
	err := w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainDestroyFlags(w.guest.Domain, 0) })
	if said(err, golibvirt.ErrOperationInvalid, golibvirt.ErrNoDomain) {
		return nil
	}
	return err
}

// maxPacket is the size in bytes of the largest answer that the driver reads. It is libvirt's
// own bound.
const maxPacket = 32 << 20

// The parts of a libvirt RPC packet that the guard reads: length, program, version, procedure,
// type, serial, status. Each has four bytes, big endian.
const (
	headerSize   = 28
	program      = 0x20008086
	typeOfReply  = 1
	typeAt       = 16
	serialAt     = 20
	programAt    = 4
	lengthOfSize = 4
)

// guard gives the library only whole replies, each once and in the order of the calls. A
// connection has one call at a time. The library trusts the lengths that it reads, and waits
// for ever if an answer comes twice. An answer of libvirtd must not be able to end or to stop
// this daemon.
type guard struct {
	net.Conn
	rest []byte // of the packet that the library is reading
	last uint32 // the serial of the last reply
}

// Read returns bytes of the next reply. After a packet that is no reply, the connection ends.
func (g *guard) Read(p []byte) (int, error) {
	for len(g.rest) == 0 {
		packet, err := g.packet()
		if err != nil {
			return 0, err
		}
		if binary.BigEndian.Uint32(packet[programAt:]) != program || binary.BigEndian.Uint32(packet[typeAt:]) != typeOfReply {
			continue // an event that the driver did not ask for
		}
		if serial := binary.BigEndian.Uint32(packet[serialAt:]); serial > g.last {
			g.last, g.rest = serial, packet
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

func (g *guard) packet() ([]byte, error) {
	var size [lengthOfSize]byte
	if _, err := io.ReadFull(g.Conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < headerSize || n > maxPacket {
		return nil, fmt.Errorf("libvirtd sent a packet of %d bytes", n)
	}
	// It allocates for the bytes that come, not for the length in the packet.
	rest, err := io.ReadAll(io.LimitReader(g.Conn, int64(n-lengthOfSize)))
	if err == nil && len(rest) < int(n-lengthOfSize) {
		err = io.ErrUnexpectedEOF
	}
	return append(size[:], rest...), err
}
