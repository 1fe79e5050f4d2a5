package loss

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
)

// hands are what people and programs do to a guest beside the gate, with the tools of its back end.
type hands interface {
	// meddle does one of these things to the guest of a name, and returns what it did. other is another guest, or "". nth is
	// another number each time, for values that no step asks for.
	meddle(name, other string, how uint8, nth int64) deed

	// tidy puts back what keeps a guest from being looked at.
	tidy()
}

// deed is something that was done to a target: by the hand of a person, or by a step of a job.
type deed struct {
	says   string // what a hand did, "" if nothing
	name   string
	also   string   // the other guest whose directory a hand exchanged, or ""
	job    op.JobID // 0 is a hand
	step   op.StepID
	field  string // that a hand changed, or ""
	shares string // the holder whose disk another guest has since, or ""
	with   string // the holder that has it since
	parts  string // the holder whose disk no other guest has any more, or ""
	gave   string // the holder whose number or name another guest has since, or ""
	again  string // the holder one of whose disks was made again since, or ""
	guards bool   // it keeps the guest from being taken: no signature for what was there before covers it
}

// meddle has somebody's hand at a guest. What it took of that guest was not the gate's. What it took of another one had a
// number or a name that the gate gave to a second guest, unless a hand gave it.
func (p *play) meddle(a action) error {
	hands, ok := p.bed.(hands)
	if !ok {
		return nil
	}
	name := p.target(a)
	other := otherThan(p.bed, name)
	p.o.serial++
	at := p.bed.holder(name)
	d := hands.meddle(name, other, a.args[0], int64(p.o.serial))
	if d.says == "" {
		return nil
	}
	p.o.say("    by hand: %s", d.says)
	d.name = name
	p.ran.moved()
	p.o.did(d)
	p.moved("")
	now, err := p.bed.holdings()
	if err != nil {
		return fmt.Errorf("what is there cannot be read: %w", err)
	}
	for it := range p.o.items {
		if _, there := now[it]; there {
			continue
		}
		if it.holder != at && !p.o.given[it.holder] {
			return lossOf("bytes", "%s of %s (%s) is gone: a hand at %s (%s) took it: %s", it.mark, it.holder, it.part, name, at, d.says)
		}
		delete(p.o.items, it)
	}
	if a.args[1]%4 == 3 { // the gate's first look is that of a new daemon
		if err := p.kill(); err != nil {
			return err
		}
	}
	return p.round()
}

// tidy has hands put back what keeps requests from being approved at the end.
func (p *play) tidy() error {
	if hands, ok := p.bed.(hands); ok {
		hands.tidy()
		p.ran.moved()
	}
	return p.round()
}

// did takes in what somebody did.
func (o *oracle) did(d deed) {
	o.deeds = append(o.deeds, d)
	if d.gave != "" {
		o.given[d.gave] = true
	}
	o.share(d)
}

// share takes in who has whose disk, and whose is another one now: that is no scratch of who made the guest.
func (o *oracle) share(d deed) {
	if h := o.lives[d.again]; h != nil {
		h.touched = "a hand"
	}
	if d.shares != "" {
		o.shared[d.shares] = d.with
	}
	if d.parts != "" {
		o.shared[d.parts] = ""
	}
}

// sharedNow reports whether another guest has the disk of a holder, and is still there.
func (o *oracle) sharedNow(holder string) bool {
	with := o.shared[holder]
	return with != "" && slices.ContainsFunc(names, func(n string) bool { return o.m.bed.holder(n) == with })
}

// overtaken says who did something to the target of a compensation after the step that it took back, "" if nobody did.
// What comes back from the trash overwrites nothing.
func (o *oracle) overtaken(r ran) string {
	if r.step.Undoes == 0 || r.step.Op == "guest.undelete" {
		return ""
	}
	done, switched := op.StepID{Job: r.step.ID.Job, Index: r.step.Undoes}, ""
	for _, d := range slices.Backward(o.deeds) {
		switch {
		case d.step == done:
			return switched
		case d.name != r.step.Target.Name || d.job == r.step.ID.Job:
		case d.job != 0:
			return d.step.String()
		case r.step.Params.Has(d.field):
			return d.says
		case d.field == "running" && runs[r.step.Op] && switched == "": // twice is as it was
			switched = d.says
		case d.field == "running":
			switched = ""
		}
	}
	return ""
}

// runs are the compensations that start or stop a guest.
var runs = map[string]bool{"guest.start": true, "guest.stop": true}

// oddMemory is what no step asks for.
func oddMemory(nth int64) int64 { return 2048 + nth }

// meddle of the memory driver changes fields.
func (b *memoryBed) meddle(name, _ string, how uint8, nth int64) deed {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.find(name)
	switch {
	case !ok || how%4 == 1 && o.Protected:
		return deed{}
	case how%4 == 0:
		b.Alter(name, op.Params{"memory": oddMemory(nth)})
		return deed{says: "memory is " + strconv.FormatInt(oddMemory(nth), 10), field: "memory"}
	case how%4 == 1:
		b.Alter(name, op.Params{"protected": true})
		return deed{says: "it is protected", guards: true}
	}
	if how%4 == 3 {
		m := mark(fmt.Sprintf("hand-%d", nth))
		was := b.holder(name)
		b.put(b.Put(name, op.Params{}).Storage[0], m)
		b.Driver.Write(name)
		return deed{says: fmt.Sprintf("it is another guest of the name, with %s", m), gave: was}
	}
	labels := map[string]any{"by": "hand"}
	for k, v := range o.Labels {
		labels[k] = v
	}
	b.Alter(name, op.Params{"labels": labels})
	return deed{says: "a label more"}
}

// meddle of directories kills a guest's process, puts a link to another guest's data in the place of its own, and back, exchanges
// the directories of two guests, writes another memory limit into a guest's file, and protects it there.
func (b *localBed) meddle(name, other string, how uint8, nth int64) deed {
	data, aside := b.data(name), b.data(name)+".aside"
	if how >= toGuard {
		if member(filepath.Join(b.root, name, "guest.json"), "protected") == "false" && b.edit(name, "protected", `"protected":true`) {
			return deed{says: "it is protected", guards: true}
		}
		return deed{}
	}
	switch how % 5 {
	case 0:
		if pid := b.process(filepath.Join(b.root, name, "run.json")); pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			return deed{says: "its process is killed", field: "running"}
		}
	case 1:
		if other != "" && os.Rename(data, aside) == nil && os.Symlink(b.data(other), data) == nil {
			return deed{says: "its data is a link to that of " + other}
		}
	case 2:
		if to, err := os.Readlink(data); err == nil && os.Remove(data) == nil && os.Rename(aside, data) == nil {
			return deed{says: "its data is no link to " + to + " any more"}
		}
	case 4:
		if b.edit(name, "memory", `"memory_mib":`+strconv.FormatInt(oddMemory(nth), 10)) {
			return deed{says: "memory is " + strconv.FormatInt(oddMemory(nth), 10), field: "memory"}
		}
	default:
		at, there := filepath.Join(b.root, name), filepath.Join(b.root, other)
		if other != "" && b.holder(name) != "" && unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, there, unix.RENAME_EXCHANGE) == nil {
			return deed{says: "it has the directory of " + other + ", and that one its own", also: other}
		}
	}
	return deed{}
}

// edit writes one member of a guest's file anew, as an editor does: the file whole.
func (b *localBed) edit(name, what, member string) bool {
	at, beside := filepath.Join(b.root, name, "guest.json"), b.root+".edited"
	text, err := os.ReadFile(at)
	text = inJSON[what].ReplaceAll(text, []byte(member))
	return err == nil && b.holder(name) != "" && os.WriteFile(beside, text, 0o600) == nil && os.Rename(beside, at) == nil
}

func (b *localBed) tidy() {
	all, _ := filepath.Glob(filepath.Join(b.root, "*", "data.aside"))
	gone, _ := filepath.Glob(filepath.Join(b.root, ".trash", "*", "data.aside"))
	for _, aside := range append(all, gone...) {
		data := strings.TrimSuffix(aside, ".aside")
		if _, err := os.Readlink(data); err == nil && os.Remove(data) == nil {
			_ = os.Rename(aside, data)
		}
	}
}

func (*memoryBed) tidy()  {}
func (*libvirtBed) tidy() {}

// meddle of libvirt is an administrator with virsh.
func (b *libvirtBed) meddle(name, other string, how uint8, nth int64) deed {
	uuid := b.Defined()[name]
	if uuid == "" {
		return deed{}
	}
	switch how % 6 {
	case 0:
		size := strconv.FormatInt(oddMemory(nth)<<10, 10)
		b.Virsh("setmaxmem", name, size, "--config")
		b.Virsh("setmem", name, size, "--config")
		return deed{says: "memory is " + size + " KiB", field: "memory"}
	case 1:
		if disks := b.Disks(name); other != "" && len(disks) > 0 && len(b.Disks(other)) == 1 {
			b.Virsh("attach-disk", other, disks[0], "vdd", "--config", "--subdriver", format(disks[0]))
			return deed{says: other + " has " + disks[0] + ", too", shares: uuid, with: b.Defined()[other]}
		}
	case 2:
		for _, path := range b.Disks(name) {
			if owner := b.owner[path]; owner != uuid && owner != "" {
				b.Virsh("detach-disk", name, "vdd", "--config")
				return deed{says: "it has " + path + " no more", parts: owner}
			}
		}
	case 3:
		if b.Virsh("domstate", name) == "running" {
			b.Virsh("destroy", name)
			return deed{says: "it is switched off", field: "running"}
		}
	case 4:
		// A snapshot is in each disk's file, so one of a disk of another guest would be in that guest's.
		foreign := func(path string) bool { return b.owner[path] != uuid }
		if !slices.ContainsFunc(b.Disks(name), foreign) && b.tries("snapshot-create-as", name, "hand") {
			return deed{says: "a snapshot"}
		}
	default:
		if b.tries("snapshot-delete", name, "hand") {
			return deed{says: "the snapshot of a hand is deleted"}
		}
	}
	return deed{}
}

// tries runs a virsh command that libvirt may refuse, for example because a snapshot has that name.
func (b *libvirtBed) tries(args ...string) bool {
	return exec.Command("virsh", append([]string{"-q", "-c", b.URI}, args...)...).Run() == nil
}

// processes counts what runs of a guest, as the kernel has it: by the uid that the guest alone has. It is 1 while something forks.
func (b *localBed) processes(name string) int {
	if b.forks.in(b.data(name)) {
		return 1
	}
	table, err := os.ReadFile(filepath.Join(b.root, ".uids"))
	uuid, _, _ := strings.Cut(b.holder(name), ":")
	if err != nil || uuid == "" {
		return 0
	}
	_, rest, found := strings.Cut(string(table), `"`+uuid+`":`)
	if !found {
		return 0
	}
	own, _ := strconv.Atoi(rest[:strings.IndexAny(rest, ",}")])
	return len(processesOf(func(uid uint32) bool { return uid == uint32(own) }))
}

// processesOf are the processes that run with one of these uids.
func processesOf(uids func(uid uint32) bool) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		var at syscall.Stat_t
		if stat, err := os.ReadFile(filepath.Join(dir, "stat")); err != nil || strings.Contains(string(stat), ") Z ") {
			continue
		}
		if pid, _ := strconv.Atoi(filepath.Base(dir)); syscall.Stat(dir, &at) == nil && uids(at.Uid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stopped asks whether a stop that succeeded left a process of its guest, or a command one of its own.
func (o *oracle) stopped(steps []ran) error {
	counts, ok := o.m.bed.(interface{ processes(name string) int })
	if !ok {
		return nil
	}
	for i, r := range steps {
		if r.step.Op != "guest.stop" && r.step.Op != op.Run || o.state(r) != op.StateSucceeded || o.followed(steps[i+1:], r) {
			continue
		}
		if n := counts.processes(r.step.Target.Name); n > 0 {
			return lossOf("stopped", "%s (%s of %s) succeeded, and %d of its processes run", r.step.ID, r.step.Op, r.step.Target, n)
		}
	}
	return nil
}
