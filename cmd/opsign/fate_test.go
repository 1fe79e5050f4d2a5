package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

func factsOf(pairs ...string) (out []op.Fact) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, op.Fact{Name: pairs[i], Text: pairs[i+1]})
	}
	return out
}

// guestLooks has what each back end says of a guest that is not a small one.
var guestLooks = map[string][]op.Fact{
	"local": factsOf("files", "1204", "bytes", "38.2 MiB (38.9 MiB on disk)", "last write", "2026-01-05T01:02:03Z", "snapshots", "before-update, weekly",
		"backups", "none known; gated makes none", "depends on it", "nothing known; no guest shares data",
		"process", "web-server, running since 2026-01-02T08:00:12Z (pid 4711), unconfined",
		"limits", "memory 512 MiB by cgroup; cpus not limited", "destroy", "can be undone until 2026-01-06T03:04:05Z",
		"wipe, restore, snapshot-delete", "can be undone by hand until 2026-01-06T03:04:05Z: copy the old files out of /var/lib/gated/guests/.trash"),
	"libvirt": factsOf("disk vda", "20.0 GiB (7.3 GiB allocated), qcow2, /var/lib/libvirt/images/web.qcow2, in the pool default, last write 2026-01-05T01:02:03Z",
		"other disk sda", "size not known, raw, /var/lib/libvirt/images/debian.iso", "snapshots", "before-update (in the disks)",
		"saved state", "none", "firmware settings", "/var/lib/libvirt/qemu/nvram/web_VARS.fd", "TPM", "emulated, with its secrets",
		"backups", "none known; gated makes none here", "depends on it", "no other guest of this libvirtd",
		"remains", "after a destroy: sda (the medium /var/lib/libvirt/images/debian.iso)",
		"undo", "what destroy, wipe, restore and the deletions take cannot be brought back: libvirt has no trash"),
	"proxmox": factsOf("guest", "a machine (QEMU), vmid 104 on pve1, running", "disks", "2, 52 GiB: scsi0 32 GiB (local-lvm:vm-104-disk-0), scsi1 20 GiB (local-lvm:vm-104-disk-1)",
		"cloud-init", "ide2 local-lvm:vm-104-cloudinit: Proxmox VE makes it from the settings; a destroy and a restored backup take it",
		"snapshots", "2: before-update, weekly", "backups", "3, the newest vzdump-qemu-104-2026_01_04-02_00_01 of 2026-01-04T02:00:01Z; a destroy leaves them"),
}

// aboutCopy has what is said of a step's snapshot or backup.
func aboutCopy(s op.Spec) []op.Fact {
	if s.Copy == "" {
		return nil
	}
	facts := factsOf(s.Copy, "before-update, taken 2026-01-04T02:00:01Z", s.Copy+" made by", "agent:builder#7 by j12.1",
		s.Copy+" holds", "more than 1180 files, 36.0 MiB (36.4 MiB on disk)")
	if s.Identity == op.Renews {
		facts = append(facts, factsOf(op.FactOverwritten, "1 file (21 B) of 1204, written or changed since then, the last 2026-01-05T01:02:03Z")...)
	}
	return facts
}

// asks are the parameters that an operation is asked with.
var asks = map[string]op.Params{
	"guest.set-config": {"labels": map[string]any{"owner": "bob", "tier": "prod"}}, "guest.clone": {"from": "old"},
	"guest.snapshot": {"snapshot": "before-update"}, "guest.snapshot-delete": {"snapshot": "before-update"}, "guest.restore": {"snapshot": "before-update"},
	"guest.disk-create": {"disk": "vda", "size": int64(1)}, "guest.disk-resize": {"disk": "vda", "size": int64(1)}, "guest.disk-wipe": {"disk": "vda"},
	"guest.disk-detach": {"disk": "vda"}, "guest.disk-delete": {"disk": "vda"}, "guest.backup": {"rotate": true},
	"guest.backup-restore": {"backup": "before-update"}, "guest.backup-delete": {"backup": "before-update"},
}

// waitingFor is a request for an operation on a guest, as it waits for an operator.
func waitingFor(t *testing.T, s op.Spec, facts []op.Fact) question {
	p := asks[s.Name]
	if p == nil {
		p = op.Params{}
	}
	o := op.Observed{Present: !s.Creates, Labels: map[string]string{"tier": "prod", "owner": "alice"}, Disks: []op.Disk{{Name: "vda", Size: 2 << 20}}, Facts: facts}
	q := questionOf(t, payload(t, func(b *op.Payload) {
		b.Op, b.Params, b.Reason = s.Name, p, "the project is over, and nobody needs it any more"
	}))
	q.request.Facts, q.request.Labels = append(aboutCopy(s), o.Changed(s.Name, p)...), o.Labels
	q.request.Rule, q.request.Why = "any", "it takes a part of the guest that is gone afterwards, and it was not made as scratch by its agent"
	q.request.RequestedBy = []string{"agent:builder#7"}
	q.request.CreatedAt, q.request.FactsAt = q.payload.IssuedAt, q.payload.IssuedAt
	q.request.ExpiresAt = q.payload.ExpiresAt
	q.request.Demands = []api.Demand{{Rule: op.BuiltIn, Roles: []op.Role{op.Operational}, Threshold: 1, Could: []string{"alice@example.com", "bob@example.com"}}}
	return q
}

// TestARequestIsJudgedOnOneScreen: at 80 columns and 24 rows, the first screen has what an operator judges by: what is done to what,
// whether it can be undone, what changes or goes, who asks, and why. A step that takes a whole guest has no second screen, and
// neither has one that changes a label.
func TestARequestIsJudgedOnOneScreen(t *testing.T) {
	rows := 24 - 1 - keyRows(79, [2]string{wordsReviewKeys, wordsReviewMore})
	for _, s := range op.Catalogue() {
		for backend, facts := range guestLooks {
			if s.Kind != op.KindGuest {
				continue
			}
			q := waitingFor(t, s, facts)
			text := q.text(view{now: q.payload.IssuedAt.Add(time.Minute), dash: " · ", more: "d"})
			lines := cli.Wrapped(text, 79)
			first := strings.Join(lines[:min(len(lines), rows)], "\n")
			said := fmt.Sprintf("%s on %s:\n%s", s.Name, backend, strings.Join(lines, "\n"))
			require.True(t, strings.HasPrefix(first, strings.Join(cli.Wrapped(q.headline(" · "), 79), "\n")+"\n"), said)
			require.Contains(t, first, "reason of the requester: ", said)
			require.Contains(t, first, "why it waits: ", said)
			level, _ := q.undo()
			require.Equal(t, s.Takes != "" && (level == op.Gone || level == op.ByHandUntil || s.Identity == op.Ends), strings.Contains(first, "\n  goes"), said)
			if s.Name == "guest.destroy" && backend == "local" || s.Name == "guest.set-config" {
				require.LessOrEqual(t, len(lines), rows, said)
			}
			narrow := cli.Wrapped(text, 39)
			for _, line := range narrow {
				require.LessOrEqual(t, len([]rune(line)), 39, said)
			}
		}
	}
}

// TestWhatGoesStandsFirst: the one overwritten file of a restore, and the snapshot that a deletion takes and no file.
func TestWhatGoesStandsFirst(t *testing.T) {
	section := func(name, heading string) string {
		spec, err := op.Lookup(name)
		require.NoError(t, err)
		text := waitingFor(t, spec, guestLooks["local"]).text(view{dash: " - "})
		_, rest, ok := strings.Cut(text, "\n  "+heading)
		require.True(t, ok, text)
		_, rest, _ = strings.Cut(rest, ":\n")
		lines := strings.Split(rest, "\n")
		end := slices.IndexFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "    ") })
		return strings.Join(lines[:end], "\n")
	}
	require.Regexp(t, `\A    overwritten +1 file \(21 B\) of 1204`, section("guest.restore", "goes"))
	gone, stays := section("guest.snapshot-delete", "goes"), section("guest.snapshot-delete", "stays")
	require.Regexp(t, `\A    snapshot  +before-update, taken `, gone)
	require.NotContains(t, gone, "files  ")
	require.Regexp(t, `(?s)\A    files  .*bytes  .*last write  `, stays)
}

// programSwap asks for another program, and perhaps for less memory.
func programSwap(t *testing.T, memory ...int64) question {
	p := op.Params{"command": "other"}
	for _, m := range memory {
		p["memory"] = m
	}
	q := asked(t, "guest.set-config", p, factsOf("changes command", `from "site" to "other"`, "files", "1", "bytes", "2 B (4.0 KiB on disk)",
		"last write", "2026-01-05T01:02:03Z", "snapshots", "weekly", "depends on it", "nothing known; no guest shares data", "process", "none")...)
	q.request.Rule = "program-swapped"
	return q
}

const atMost = "\n  goes:\n    at most  protection and labels, "

// TestAnotherProgramTakesNothingYet: the data is at risk from the next start. Nothing goes by the program; a limit may end programs.
func TestAnotherProgramTakesNothingYet(t *testing.T) {
	text := programSwap(t).text(view{dash: " - "})
	require.True(t, strings.HasPrefix(text, "CHANGE guest/web-1 on pve1 - CANNOT BE UNDONE\n"), text)
	require.Contains(t, text, "  changes:\n    command  from \"site\" to \"other\"\n  at risk from the next start:\n"+
		"    files       1\n    bytes       2 B (4.0 KiB on disk)\n    last write  2026-01-05T01:02:03Z\n")
	require.Contains(t, text, "  stays:\n    snapshots  weekly\n  none known:\n    depends on it  nothing known; no guest shares data\n"+
		"  not there: process\n")
	require.NotContains(t, text, "  goes")
	text = programSwap(t, 64).text(view{dash: " - "}) // an older gate does not say what the limit ends
	require.Contains(t, text, atMost)
	require.Contains(t, text, "by less memory than it uses, what its programs hold\n")
	require.Contains(t, text, "\n  at risk from the next start:\n    files ")
}

// TestWhatGoesAtMostIsSaid: of each step that cannot simply be undone, if no fact says what goes.
func TestWhatGoesAtMostIsSaid(t *testing.T) {
	for text, want := range map[string]bool{"cannot be undone": true, "can be undone by hand until 2026-01-06T03:04:05Z: copy it": true,
		"can be undone until 2026-01-06T03:04:05Z": false} {
		q := asked(t, "guest.wipe", op.Params{}, op.Fact{Name: "wipe", Text: text})
		require.Equal(t, want, strings.Contains(q.text(view{dash: " - "}), "\n  goes:\n    at most  all of a guest's data\n"), text)
	}
}

// TestNoFactIsLostBetweenTheHeadings: each fact stands under one heading, in the headline, or among the details.
func TestNoFactIsLostBetweenTheHeadings(t *testing.T) {
	for _, s := range op.Catalogue() {
		for _, facts := range guestLooks {
			if s.Kind != op.KindGuest {
				continue
			}
			q := waitingFor(t, s, facts)
			parted := slices.Concat(slices.Collect(maps.Values(q.fates()))...)
			_, undo := q.undo()
			for _, fact := range q.request.Facts {
				n := 0
				for _, x := range parted {
					if x == fact {
						n++
					}
				}
				require.Equal(t, n == 0, n != 1, "%s: %v", s.Name, fact)
				require.True(t, n == 1 || fact.Text == undo, "%s: %v", s.Name, fact)
				if whole := q.text(view{details: true}); fact.Text != undo {
					require.Contains(t, whole, fact.Text, s.Name)
				}
			}
		}
	}
}
