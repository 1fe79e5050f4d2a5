package matrix_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/driver/libvirt/libvirtworld"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/log/audit"
	"gated/internal/nonce"
	"gated/internal/reconcile"
	"gated/internal/test/must"
)

// backend is one that the rows of this table run against: world is called for
// each row, and begin once, where the back end is a program.
type backend struct {
	name  string
	rows  []row
	apart bool // each row has a back end of its own, and they run side by side
	begin func(t *testing.T) (world func(t *testing.T) drivertest.World)
}

// Containers take the way of machines through the reconciler: what is wished for
// is read before anybody knows which of them it is about.
var backends = []backend{
	{"libvirt", backendRows, false, func(t *testing.T) func(*testing.T) drivertest.World {
		if os.Geteuid() != 0 {
			notHere(t, "libvirt", "needs root, as libvirtd does for guests of the system")
		}
		if _, err := exec.LookPath("libvirtd"); err != nil {
			notHere(t, "libvirt", "needs libvirtd (Debian: libvirt-daemon-system libvirt-clients libvirt-daemon-driver-qemu qemu-system-x86 qemu-utils)")
		}
		l := libvirttest.Start(t)
		proxy := l.Proxy()
		return func(t *testing.T) drivertest.World { return libvirtworld.New(t, l, proxy) }
	}},
	{"proxmox-qemu", backendRows, true, proxmox("qemu")},
	{"proxmox-lxc", guestRows, true, proxmox("lxc")},
}

// notHere skips a back end, and says so where the numbers of cases are read.
func notHere(t *testing.T, name, why string) {
	fmt.Printf("matrix: 0 cases against %s: %s\n", name, why)
	t.Skip(why)
}

// proxmox is the simulated cluster, which answers as the real one says it does.
func proxmox(kind string) func(*testing.T) func(*testing.T) drivertest.World {
	return func(*testing.T) func(*testing.T) drivertest.World {
		return func(t *testing.T) drivertest.World { return pveworld.New(t, kind) }
	}
}

// row is one attack that runs against each back end. Its id is the matrix's.
type row struct {
	id    string
	what  string
	needs string // an ability of the back end, or ""
	ops   string // an operation that it needs, without "guest.", or ""
	want  refusal.Code
	run   func(*stand) error

	policy func(*drivertest.World) // changes the policy, if not nil
}

// stand is a row while it runs: a World of a back end, and a gate in front of it.
type stand struct {
	*drivertest.Gate
	t      *testing.T
	w      drivertest.World
	before *standing

	spent    map[op.RequestID]nonce.Fate // of requests that the row's refusal rightly ends
	sources  func() []reconcile.Source   // of wishes, as the row last had them
	want     refusal.Code                // in the place of the row's
	unlogged string                      // why the audit log has no entry
	loggedAs refusal.Code                // the log's code, where the row's is none
	finale   func()                      // in the place of a destroy of the victim that is signed for real
}

// standing is what a refused attack leaves as it was.
type standing struct {
	seen   map[string]held
	nonces map[string]nonceRow
	seq    int64
}

// held is a target as the driver shows it, and what it holds as other hands do.
type held struct {
	Look    op.Observed
	Content string
}

func TestBackends(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range backendRows {
		require.Regexp(t, idForm, r.id)
		require.False(t, ids[r.id], "%s is there twice", r.id)
		ids[r.id] = true
	}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			world := b.begin(t)
			var ran, refused, accepted atomic.Int64
			t.Cleanup(func() {
				fmt.Printf("matrix: %d cases against %s, %d refused as expected, %d accepted\n", ran.Load(), b.name, refused.Load(), accepted.Load())
				assert.Equal(t, ran.Load(), refused.Load())
				assert.Zero(t, accepted.Load())
			})
			for _, r := range b.rows {
				t.Run(r.id, func(t *testing.T) {
					if b.apart {
						t.Parallel()
					}
					t.Log(r.what)
					s := newStand(t, r, world(t))
					ran.Add(1)
					err := r.run(s)
					if err == nil {
						accepted.Add(1)
					}
					s.verdict(r, err)
					refused.Add(1)
				})
			}
		})
	}
}

// everywhere are the rows that issue and page of the matrix promise of each back
// end of guests.
var everywhere = []string{"B07", "B08", "B09", "P02", "P06", "P07", "P09", "P10", "P11", "P14", "P16", "P17", "H09", "U01", "U07", "U38"}

func TestBackendsHaveTheirRows(t *testing.T) {
	have := map[string]bool{}
	for _, r := range backendRows {
		have[regexp.MustCompile(`[a-z]?$`).ReplaceAllString(r.id, "")] = true
	}
	for _, id := range everywhere {
		require.True(t, have[id], id)
	}
}

func newStand(t *testing.T, r row, w drivertest.World) *stand {
	if r.policy != nil {
		r.policy(&w)
	}
	if r.needs != "" {
		w.Needs(t, r.needs)
	}
	if r.needs == "Volatile" {
		w.Volatile(drivertest.Victim)
	} else {
		w.Make(drivertest.Victim)
	}
	w.Make(drivertest.Bystander)
	s := &stand{t: t, w: w, spent: map[op.RequestID]nonce.Fate{},
		sources: func() []reconcile.Source { return nil }}
	if r.ops != "" && !s.has(r.ops) {
		t.Skipf("does not apply: the back end has no guest.%s", r.ops)
	}
	s.Gate = drivertest.NewGate(t, w)
	return s
}

// arm takes the snapshot: all before it is set-up, all after it the attack.
func (s *stand) arm() {
	s.t.Helper()
	s.before = s.standing()
}

func (s *stand) standing() *standing {
	s.t.Helper()
	now := &standing{seen: map[string]held{}, nonces: map[string]nonceRow{}}
	for _, name := range drivertest.Names() {
		now.seen[name] = s.see(name)
	}
	require.NoError(s.t, s.Store.View(s.t.Context(), func(tx *store.Tx) error {
		var err error
		now.nonces, err = readNonces(tx)
		return err
	}))
	head := must.Get(s.AuditHead(s.t.Context()))(s.t)
	now.seq = head.Seq
	return now
}

// see looks at a target. Facts are for people, and say when something was.
func (s *stand) see(name string) held {
	s.t.Helper()
	o := drivertest.LookAt(s.t, s.w.Driver, name)
	o.Facts = nil
	return held{o, s.w.Content(name)}
}

// verdict asserts what has to hold after every row.
func (s *stand) verdict(r row, err error) {
	s.t.Helper()
	require.NotNil(s.t, s.before, "the row took no snapshot")
	require.Error(s.t, err, "ACCEPTED: %s", r.what)
	if s.want == "" {
		s.want = r.want
	}
	require.Equal(s.t, s.want, refusal.CodeOf(err), "%v", err)
	s.Reconcile(s.sources()...) // whatever the attack left to run must change nothing either
	after := s.standing()
	require.Equal(s.t, s.before.seen, after.seen, "a target was changed")
	for n, now := range after.nonces {
		want := nonce.Unspent
		if old, known := s.before.nonces[n]; known {
			want = old.fate
		}
		if fate, ends := s.spent[now.request]; ends && want == nonce.Unspent {
			want = fate
		}
		require.Equal(s.t, want, now.fate, "the nonce of %s", now.request)
	}
	for n := range s.before.nonces {
		require.Contains(s.t, after.nonces, n, "a nonce was forgotten")
	}
	s.logged(s.want)
	if s.finale == nil {
		s.finale = s.conclude
	}
	s.finale()
	require.NoError(s.t, s.Store.View(s.t.Context(), func(tx *store.Tx) error { _, err := audit.Verify(tx, nil); return err }))
}

// logged asserts that the audit log tells of the refusal.
func (s *stand) logged(code refusal.Code) {
	s.t.Helper()
	if s.unlogged != "" {
		return
	}
	if s.loggedAs != "" {
		code = s.loggedAs
	}
	es := must.Get(s.Events(s.t.Context(), s.before.seq, 10000))(s.t)
	for _, e := range es {
		asked := e.Kind == audit.Requested || e.Kind == audit.Joined
		if e.Code == code || e.Kind == audit.Kind(code) || code == refusal.PendingSignature && asked {
			return
		}
	}
	require.Fail(s.t, "not in the audit log", "code %s, entries %+v", code, es)
}

// conclude proves that signed work goes on: a destroy of the victim is approved,
// runs once and reaches nothing else.
func (s *stand) conclude() {
	s.t.Helper()
	ctx := s.t.Context()
	rs := must.Get(s.Requests(ctx, op.StatePending))(s.t)
	for _, r := range rs {
		must.Get(s.Gate.Cancel(ctx, drivertest.Daemon, r.ID.Job))(s.t)
	}
	s.calm()
	others := map[string]held{drivertest.Bystander: s.see(drivertest.Bystander), drivertest.Fresh: s.see(drivertest.Fresh)}
	r := s.Approved(drivertest.Hub, s.w.Taking(drivertest.Victim))
	s.Reconcile()
	require.Equal(s.t, op.StateSucceeded, s.Step(r.ID).State, s.Step(r.ID).Detail)
	require.Empty(s.t, s.w.Content(drivertest.Victim))
	must.Fail(s.Approve(r))(s.t, refusal.Replayed)
	for name, was := range others {
		require.Equal(s.t, was, s.see(name), "a signed step reached %s", name)
	}
}

// calm takes the victim's protection away, by a signature: a back end of its own
// may refuse to destroy it otherwise.
func (s *stand) calm() {
	s.t.Helper()
	if s.see(drivertest.Victim).Look.Protected {
		s.Done(drivertest.Hub, s.ask("set-config", drivertest.Victim, "protected", false))
	}
}
