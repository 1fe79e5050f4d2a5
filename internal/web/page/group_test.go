package page

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/gates"
)

// doomed is the kind of what fakeGate.wait adds.
var doomed = kindOf(api.Request{Op: "guest.destroy", State: op.StatePending})

// waits adds a request to destroy a guest.
func (g *fakeGate) waits(t testing.TB, id, name string, facts ...op.Fact) {
	g.wait(t, id, func(p *op.Payload, r *api.Request) { p.Target.Name, r.Facts = name, facts })
}

// second serves another gate, and returns how a console knows it.
func second(t *testing.T) (*fakeGate, client.KnownGate) {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "gw"))(t) // short, for the socket
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := newFakeGate()
	g.host = "pve2"
	path := filepath.Join(dir, "s")
	serve(t, must.Get(net.Listen("unix", path))(t), g)
	return g, client.KnownGate{Address: client.UnixAddress(path), Host: "pve2", Gate: gateID}
}

// in asks to approve a request of pve1, as one of a group.
func (c *console) in(id string, k kind) decisionIn {
	return decisionIn{Decision: approve, Role: op.Operational, Payload: c.payloadOf(id), Seen: c.seenOf(id), Group: k.Key}
}

func TestAGroupIsShownOnce(t *testing.T) {
	t.Parallel()
	other, known := second(t)
	c := newConsoleOf(t, []client.KnownGate{known})
	alice := c.listed("alice@example.com", op.Operational)
	bytes := op.Fact{Name: "bytes", Text: "38 GiB"}
	c.gate.waits(t, "j1.1", "web-1", op.Fact{Name: "files", Text: "1"}, bytes)
	c.gate.waits(t, "j2.1", "web-2", op.Fact{Name: "files", Text: "2"}, bytes)
	other.waits(t, "j7.1", "secret")
	other.add(line(alice.device, "alice@example.com", op.Operational), "alice@example.com", alice.device.Key.Fingerprint(), op.Operational)
	c.caught()
	c.untilOf("pve2", func(g gates.Gate) bool { return len(g.Requests) == 1 && len(g.Trust.Signers) == 1 })
	require.Contains(t, alice.page(http.StatusOK, "/"), "3 requests on 2 hosts")
	page := alice.page(http.StatusOK, doomed.link())
	require.Contains(t, page, `data-path="/g/pve2/r/j7.1"`)
	require.Contains(t, page, `data-typed="3 guest.destroy"`)
	require.Contains(t, page, `data-live="pve1 pve2"`)

	// A gate at which a passkey is no longer listed is not there, on the same page.
	other.change(func() { other.signers = nil })
	c.untilOf("pve2", func(g gates.Gate) bool { return len(g.Requests) == 1 && len(g.Trust.Signers) == 0 })
	link := regexp.MustCompile(`<a href="(/group\?[^"]*)">Decide on these together`).FindStringSubmatch(alice.page(http.StatusOK, "/"))
	require.Equal(t, doomed.link(), strings.ReplaceAll(link[1], "&amp;", "&"))
	page = alice.page(http.StatusOK, doomed.link())
	require.NotContains(t, page, "pve2")
	require.NotContains(t, page, "secret")
	require.Contains(t, page, `data-live="pve1"`)
	require.Contains(t, page, `data-typed="2 guest.destroy"`)
	require.Equal(t, 1, strings.Count(page, "38 GiB"))
	require.Equal(t, 1, strings.Count(page, "&#34;no longer needed&#34;"))
	require.Equal(t, 2, strings.Count(page, "<dt>files</dt>"))
	require.Equal(t, 1, strings.Count(page, "CANNOT BE UNDONE"))
	at := 0
	for _, part := range []string{"CANNOT BE UNDONE", "38 GiB", "the same for each", "web-1", "web-2", "Decide on these together"} {
		next := strings.Index(page[at:], part)
		require.GreaterOrEqual(t, next, 0, part)
		at += next
	}
	for _, id := range []string{"j1.1", "j2.1"} {
		require.Contains(t, page, fmt.Sprintf(`data-path="/g/pve1/r/%s"`, id))
		require.Contains(t, page, fmt.Sprintf(`data-payload="%s" data-seen="%s" data-approve="yes" data-reject="operational"`, c.payloadOf(id), c.seenOf(id)))
		require.Contains(t, alice.page(http.StatusOK, "/g/pve1/r/"+id), "Decide on this and 1 request like it together")
	}
}

// A key that nobody's requests have, one of what may not be read, and one that does not fit the operation are one answer.
func TestAForgedGroup(t *testing.T) {
	t.Parallel()
	other, known := second(t)
	c := newConsoleOf(t, []client.KnownGate{known})
	alice := c.listed("alice@example.com", op.Operational)
	other.wait(t, "j1.1", func(p *op.Payload, r *api.Request) { p.Op = "guest.wipe" })
	c.gate.waits(t, "j1.1", "web-1")
	c.gate.wait(t, "j2.1", func(p *op.Payload, _ *api.Request) {
		p.Op, p.Target, p.Params = op.Rotate, op.Signers, op.Params{"add": []any{}, "remove": []any{}, "epoch": int64(2)}
	})
	c.caught()
	c.untilOf("pve2", func(g gates.Gate) bool { return len(g.Requests) == 1 })
	secret := kindOf(api.Request{Op: "guest.wipe", State: op.StatePending})
	want := alice.page(http.StatusNotFound, kind{"guest.stop", strings.Repeat("0", 32)}.link())
	require.Contains(t, want, "No request of this group waits any more")
	for _, k := range []kind{secret, {}, {"guest.destroy", ""}, {"guest.destroy", secret.Key}, {"guest.wipe", doomed.Key}, {"", doomed.Key},
		{"guest.destroy", strings.ToUpper(doomed.Key)}, {op.Rotate, kindOf(api.Request{Op: op.Rotate, State: op.StatePending}).Key}} {
		require.Equal(t, want, alice.page(http.StatusNotFound, k.link()), "%v", k)
	}
	_, answer := c.person(nil).get(doomed.link())
	require.Contains(t, string(answer), "Sign in with a passkey")
	require.NotContains(t, string(answer), "web-1")
}

// What was shown of a member is what is signed of it, and the others are as they were.
func TestAMemberThatChanged(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	for i := range 3 {
		c.gate.waits(t, fmt.Sprintf("j%d.1", i+1), fmt.Sprintf("web-%d", i+1))
	}
	c.caught()
	alice.page(http.StatusOK, doomed.link())
	shown := map[string]decisionIn{}
	for _, id := range []string{"j1.1", "j2.1", "j3.1"} {
		shown[id] = c.in(id, doomed)
	}
	c.gate.change(func() { c.gate.requests["j2.1"].Facts = []op.Fact{{Name: "snapshot", Text: "before the upgrade"}} })
	require.Equal(t, refusal.StaleTarget, alice.refused("/g/pve1/r/j2.1/challenge", shown["j2.1"]).Code)
	// A challenge of before does not help, nor does a second one of another member.
	in := shown["j1.1"]
	made := asked[ceremony](alice, "/g/pve1/r/j1.1/challenge", in)
	posted := decidedIn{Role: in.Role, Payload: in.Payload, Seen: in.Seen, Group: in.Group, Message: made.Message, Assertion: alice.signed(made)}
	require.Equal(t, refusal.StaleTarget, alice.refused("/g/pve1/r/j2.1/approve", posted).Code)
	require.Equal(t, refusal.StaleTarget, alice.refused("/g/pve1/r/j3.1/approve", posted).Code)
	answer := asked[next](alice, "/g/pve1/r/j1.1/approve", posted)
	require.Equal(t, op.StateAuthorized, answer.State)
	all := c.gate.arrived()
	require.Len(t, all, 1)
	require.Equal(t, "j1.1", all[0].id)
	require.Equal(t, c.gate.payloads["j1.1"], c.keygenTakes(all[0], "alice@example.com"))
}

// Who is in a group is found anew for each signature, whatever a page lists.
func TestAMemberOfAnotherOperation(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	c.gate.waits(t, "j1.1", "web-1")
	c.gate.wait(t, "j2.1", func(p *op.Payload, _ *api.Request) { p.Op = "guest.wipe" })
	c.gate.wait(t, "j3.1", func(p *op.Payload, _ *api.Request) { p.Params = op.Params{"keep_backups": true} })
	c.caught()
	for _, id := range []string{"j2.1", "j3.1"} {
		problem := alice.refused("/g/pve1/r/"+id+"/challenge", c.in(id, doomed))
		require.Equal(t, refusal.StaleTarget, problem.Code)
		require.Contains(t, problem.Detail, "not one of this group")
		alone := alice.decided(id, approve, "")
		alone.Group = doomed.Key
		require.Contains(t, alice.refused("/g/pve1/r/"+id+"/approve", alone).Detail, "not one of this group")
	}
	require.Empty(t, c.gate.arrived())
	page := alice.page(http.StatusOK, doomed.link())
	require.NotContains(t, page, "j2.1")
	require.NotContains(t, page, "j3.1")
}

func TestAMemberThatIsDecidedMeanwhile(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	c.gate.waits(t, "j1.1", "web-1")
	c.gate.waits(t, "j2.1", "web-2")
	c.caught()
	in := c.in("j2.1", doomed)
	// The gate knows it, and the console did not hear of it yet.
	c.gate.mu.Lock()
	c.gate.requests["j2.1"].State = op.StateRejected
	c.gate.mu.Unlock()
	page := alice.page(http.StatusOK, doomed.link())
	require.Contains(t, page, "/g/pve1/r/j1.1")
	require.NotContains(t, page, "j2.1")
	require.Equal(t, refusal.Conflict, alice.refused("/g/pve1/r/j2.1/challenge", in).Code)
	c.gate.mu.Lock()
	c.gate.requests["j1.1"].State = op.StateCancelled
	c.gate.mu.Unlock()
	require.Contains(t, alice.page(http.StatusNotFound, doomed.link()), "No request of this group waits any more")
}

// A group that is too big says how many are beyond it, and shows first what the session can decide on.
func TestAGroupThatIsTooBig(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	for i := range maxTogether + 10 {
		c.gate.wait(t, fmt.Sprintf("j%d.1", i+1), func(p *op.Payload, r *api.Request) {
			p.Target.Name, r.CreatedAt = fmt.Sprintf("web-%d", i), r.CreatedAt.Add(time.Duration(i-100)*time.Second)
			if i < 10 {
				r.Demands[0].Threshold = 2
				r.Signatures = []api.Signature{{Principal: "alice@example.com", Role: op.Operational}}
			}
		})
	}
	c.caught()
	page := alice.page(http.StatusOK, doomed.link())
	require.Contains(t, page, fmt.Sprintf("%d requests", maxTogether+10))
	require.Equal(t, maxTogether, strings.Count(page, "data-path="))
	require.Equal(t, maxTogether, strings.Count(page, `data-approve="yes"`), "those that alice signed come last")
	require.Contains(t, page, "10 others like these wait")
	require.Contains(t, page, fmt.Sprintf(`data-typed="%d guest.destroy"`, maxTogether))
	require.LessOrEqual(t, len(page), 200_000)
}

// What has to be decided by itself says why: another role, too much to show, and a gate that is away.
func TestMembersThatAreDecidedAlone(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational, op.Recovery)
	c.gate.waits(t, "j1.1", "web-1")
	c.gate.waits(t, "j2.1", "web-2", op.Fact{Name: "probe says", Text: strings.Repeat("x", maxMember)})
	c.gate.wait(t, "j3.1", func(p *op.Payload, r *api.Request) {
		p.Target.Name, r.Roles, r.Demands[0].Roles = "web-3", []op.Role{op.Recovery}, []op.Role{op.Recovery}
		r.CreatedAt = r.CreatedAt.Add(time.Second)
	})
	c.caught()
	page := alice.page(http.StatusOK, doomed.link())
	require.Equal(t, 1, strings.Count(page, `data-approve="yes"`))
	require.Equal(t, 1, strings.Count(page, `data-reject="`))
	require.Contains(t, page, "It asks for a signature as recovery: decide on its own page.")
	require.Contains(t, page, "It says more than fits here: decide on its own page.")
	require.NotContains(t, page, "xxxx")
	c.stop()
	page = alice.page(http.StatusOK, doomed.link())
	require.Contains(t, page, "Nothing of this can be signed now.")
	require.NotContains(t, page, "data-together")
}

// A gate that does not answer is said, however many requests of it there are, and those of the others can be decided on.
func TestAGroupAtAGateThatHangs(t *testing.T) {
	t.Parallel()
	other, known := second(t)
	other.hangs = make(chan struct{})
	c := newConsoleOf(t, []client.KnownGate{known})
	alice := c.listed("alice@example.com", op.Operational)
	other.add(line(alice.device, "alice@example.com", op.Operational), "alice@example.com", alice.device.Key.Fingerprint(), op.Operational)
	for i := range 2 * maxAsked {
		other.wait(t, fmt.Sprintf("j%d.1", i+1), func(_ *op.Payload, r *api.Request) { r.CreatedAt = r.CreatedAt.Add(-time.Hour) })
	}
	c.gate.waits(t, "j1.1", "web-1")
	c.caught()
	c.untilOf("pve2", func(g gates.Gate) bool { return len(g.Requests) == 2*maxAsked && len(g.Trust.Signers) == 1 })
	page := alice.page(http.StatusOK, doomed.link())
	close(other.hangs)
	require.Equal(t, 2*maxAsked, strings.Count(page, "The gate did not answer in time. Nothing of this can be signed now."))
	require.Equal(t, 1, strings.Count(page, `data-approve="yes"`))
	require.Contains(t, page, fmt.Sprintf(`data-payload="%s"`, c.payloadOf("j1.1")))
	require.Contains(t, page, `data-typed="1 guest.destroy"`)
}

// What is the same in all members stands at the top alone, and what only some have stays with those.
func TestWhatMembersShare(t *testing.T) {
	t.Parallel()
	files, bytes, block := fact{Name: "files", Text: "1"}, fact{Name: "bytes", Text: "2"}, fact{Name: "probe", Block: "a\nb"}
	p := together{Members: []member{
		{End: "CANNOT BE UNDONE", LostTitle: "Lost", Lost: []fact{files, bytes, block}, Other: []fact{bytes, bytes}},
		{End: "CANNOT BE UNDONE", LostTitle: "Lost", Lost: []fact{block, files}, Other: []fact{bytes}},
		{End: "CANNOT BE UNDONE", LostTitle: "Seen", Lost: []fact{files, block}, Other: []fact{bytes}}}}
	p.share()
	require.Equal(t, []fact{files, block}, p.Lost)
	require.Empty(t, p.Same, "the first has it twice")
	require.Equal(t, "CANNOT BE UNDONE", p.End)
	require.Empty(t, p.LostTitle)
	require.Equal(t, []fact{bytes}, p.Members[0].Lost)
	require.Equal(t, "Lost", p.Members[0].LostTitle)
	require.Empty(t, p.Members[1].Lost)
	require.Empty(t, p.Members[1].LostTitle)
	q := together{Members: []member{{End: "can be undone", LostTitle: "Lost", Lost: []fact{files}}, {End: "CANNOT BE UNDONE", LostTitle: "Lost", Lost: []fact{bytes}}}}
	q.share()
	require.Empty(t, q.End)
	require.Equal(t, "CANNOT BE UNDONE", q.Members[1].End)
	require.Equal(t, "Lost", q.Members[1].LostTitle, "nothing stands below it at the top")
	r := together{Members: []member{{long: true}}}
	r.share()
	require.Empty(t, r.Lost)
}

// localConsole has a terminal that notes what it is asked, and an operator's session.
func localConsole(t *testing.T) (*console, *person, *asking) {
	a := &asking{}
	c := newConsole(t, func(c *Config) { c.Local, c.Terminal = true, a })
	p := c.person(nil)
	status, _ := p.post("/launch", map[string]string{"token": c.config.Wall.NewToken()})
	require.Equal(t, http.StatusOK, status)
	return c, p, a
}

// form posts a form, as a browser does.
func (p *person) form(path string, form url.Values) (status int, answer string) {
	p.c.t.Helper()
	r := must.Get(http.NewRequest(http.MethodPost, p.c.origin+path, strings.NewReader(form.Encode())))(p.c.t)
	r.Header.Set("Origin", p.c.origin)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, b := p.do(r)
	return status, string(b)
}

// named is the form of the page for requests of pve1.
func (c *console) named(ids ...string) url.Values {
	form := url.Values{"op": {doomed.Op}, "key": {doomed.Key}}
	for _, id := range ids {
		form.Add("member", "pve1 "+id+" "+c.payloadOf(id))
	}
	return form
}

func TestAGroupInTheTerminal(t *testing.T) {
	t.Parallel()
	c, operator, a := localConsole(t)
	for i := range 3 {
		c.gate.waits(t, fmt.Sprintf("j%d.1", i+1), fmt.Sprintf("web-%d", i+1))
	}
	c.caught()
	page := operator.page(http.StatusOK, doomed.link())
	require.NotContains(t, page, "data-together", "no passkey would count")
	require.Contains(t, page, "Approve 3 requests in the terminal")
	require.Equal(t, 6, strings.Count(page, `name="member" value="pve1 j`), "three in each of two forms")

	form := c.named("j1.1", "j2.1", "j3.1")
	a.done, a.err = []api.Request{{ID: "j1.1", State: op.StateSucceeded}}, refusal.New(refusal.StaleTarget, "j2.1 changed <b>")
	status, answer := operator.form("/group/terminal/approve", form)
	require.Equal(t, http.StatusOK, status)
	plain(t, answer)
	for _, part := range []string{"Signed. It is succeeded.", "j2.1 changed &lt;b&gt;", "Not signed: it ended before."} {
		require.Equal(t, 1, strings.Count(answer, part), "%s in %s", part, answer)
	}
	a.done, a.err = nil, refusal.New(refusal.Cancelled, "not confirmed")
	status, answer = operator.form("/group/terminal/reject", url.Values{"reason": {"in use"}, "op": form["op"], "key": form["key"], "member": form["member"][:2]})
	require.NotEqual(t, http.StatusOK, status)
	require.Contains(t, answer, "Not confirmed")
	of := func(id string) string { return "pve1 " + id + " " + c.payloadOf(id)[:4] }
	require.Equal(t, []string{"together  " + of("j1.1") + " " + of("j2.1") + " " + of("j3.1"), "together in use " + of("j1.1") + " " + of("j2.1")}, a.asked)
}

// The terminal is asked for nothing that is not in the group as the gates have it now.
func TestAGroupThatTheTerminalIsNotAskedFor(t *testing.T) {
	t.Parallel()
	c, operator, a := localConsole(t)
	c.gate.waits(t, "j1.1", "web-1")
	c.gate.waits(t, "j2.1", "web-2")
	c.gate.wait(t, "j3.1", func(p *op.Payload, _ *api.Request) { p.Op = "guest.wipe" })
	c.gate.wait(t, "j4.1", func(p *op.Payload, r *api.Request) { p.Target.Name, r.State = "web-4", op.StateRejected })
	c.caught()
	with := func(change func(url.Values)) url.Values {
		form := c.named("j1.1", "j2.1")
		change(form)
		return form
	}
	for what, form := range map[string]url.Values{
		"another operation": c.named("j1.1", "j3.1"),
		"decided":           c.named("j1.1", "j4.1"),
		"another gate":      with(func(f url.Values) { f.Add("member", "pve9 j1.1 "+digest) }),
		"a forged key":      with(func(f url.Values) { f.Set("key", strings.Repeat("0", 32)) }),
		"another key":       with(func(f url.Values) { f.Set("op", "guest.wipe") }),
		"none":              c.named(),
		"twice":             c.named("j1.1", "j1.1"),
		"two keys":          with(func(f url.Values) { f.Add("key", doomed.Key) }),
		"no digest":         with(func(f url.Values) { f.Add("member", "pve1 j5.1") }),
		"no request":        with(func(f url.Values) { f.Add("member", "pve1 x "+digest) }),
		"something else":    with(func(f url.Values) { f.Set("yes", "1") }),
		"a reason":          with(func(f url.Values) { f.Set("reason", "x") }),
		"too many": with(func(f url.Values) {
			for i := range maxTogether {
				f.Add("member", fmt.Sprintf("pve1 j%d.1 %s", i+10, digest))
			}
		}),
	} {
		status, answer := operator.form("/group/terminal/approve", form)
		require.GreaterOrEqual(t, status, 400, "%s: %s", what, answer)
	}
	status, _ := operator.form("/group/terminal/reject", c.named("j1.1", "j2.1"))
	require.Equal(t, http.StatusBadRequest, status, "no reason")
	require.Empty(t, a.asked)
}

// FuzzGroupForm checks that what is taken of a form is within its bounds, and that each refusal says what to do.
func FuzzGroupForm(f *testing.F) {
	f.Add("op=guest.destroy&key=00&member=pve1+j1.1+" + digest)
	f.Add("op=x&op=y")
	f.Add("member=pve1+j1.1&%zz")
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/group/terminal/approve", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		in, err := readGroupWish(r, []string{"op", "key", "member"})
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			require.NotEmpty(t, refusal.As(err).Hint)
			return
		}
		require.NotEmpty(t, in.named)
		require.LessOrEqual(t, len(in.named), maxTogether)
		for _, n := range in.named {
			_, err := op.ParseStepID(n.ID)
			require.NoError(t, err)
			require.Len(t, n.PayloadSHA256, 64)
		}
	})
}
