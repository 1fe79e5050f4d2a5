package proxmox

import (
	"bytes"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// Every answer is read into texts or refused. A guest's identity does not depend on the order
// in an answer.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"digest":"d","memory":2048,"protection":1,"template":false,"scsi0":"s:vm-1-disk-0,size=1G","pending":{"a":1}}`))
	f.Add([]byte(`[{"vmid":100,"node":"pve1","type":"qemu"},{"vmid":"100","node":"pve1","type":"qemu"}]`))
	f.Add([]byte(`"UPID:pve1:1:2:3:qmstart:100:root@pam:"`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"data":{"digest":"d"},"success":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		body := must.Get(readAll(bytes.NewReader(b)))(t)
		require.Equal(t, len(b), len(body))
		if data, err := decodeAnswer(b); err == nil && len(data) > 0 {
			again := must.Get(decodeAnswer(slices.Concat([]byte(`{"data":`), data, []byte(`}`))))(t)
			require.Equal(t, data, again, "the data is kept as it stands")
		}
		if s, err := decodeText(b); err == nil {
			_, _ = nodeOf(s)
		}
		if list, err := decodeObjects(b); err == nil {
			if rows, err := rowsOf(list); err == nil {
				for i, r := range rows {
					require.Positive(t, r.vmid)
					require.True(t, i == 0 || rows[i-1].vmid < r.vmid, "one guest twice")
				}
			}
		}
		if tree, err := decodeTree(b); err == nil {
			for _, o := range tree {
				require.NotNil(t, o)
			}
		}
		o, err := decodeObject(b)
		if err != nil {
			return
		}
		for _, kind := range []string{qemu, lxc} {
			g, err := normalise(row{vmid: 100, kind: kind}, o, o, []object{o})
			if err != nil {
				continue
			}
			require.Regexp(t, `^pve:100:[0-9a-f]{40}$`, string(g.incarnation()))
			require.True(t, g.fingerprint("").Valid())
			require.GreaterOrEqual(t, len(g.storage()), len(g.volumes()))
			for _, fact := range facts("guest.destroy", g, nil, nil) {
				require.NoError(t, op.CheckText("a fact", fact.Text))
			}
		}
	})
}

// Sizes are never negative, and a number of bytes reads as that number.
func FuzzSizes(f *testing.F) {
	for _, s := range []string{"32G", "1.5T", "0.0000001K", "9999999T", "current=512,x=1", "s:vm-1-disk-0,size=1G,media=cdrom", "volume=a:b,mp=/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseSize(s); err == nil {
			require.GreaterOrEqual(t, n, int64(0))
			back := must.Get(parseSize(strconv.FormatInt(n, 10)))(t)
			require.Equal(t, n, back)
		}
		if n, err := parseMemory(s); err == nil {
			require.GreaterOrEqual(t, n, int64(0))
			require.Equal(t, n, must.Get(parseMemory(strconv.FormatInt(n, 10)))(t))
		}
		d := parseDrive("scsi0", s)
		require.Equal(t, "scsi0", d.key)
		require.GreaterOrEqual(t, d.size, int64(0))
		require.False(t, d.owned() && d.cdrom)
	})
}

// A mark that was read is written as the same again.
func FuzzMarker(f *testing.F) {
	f.Add("notes\ngated: {\"birth\":\"b\",\"labels\":{\"a\":\"b\"},\"protected\":true,\"vmid\":100}\nmore")
	f.Add("gated: {}")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseMarker(s)
		if err != nil || !m.there {
			return
		}
		text, err := m.in(s)
		if err != nil {
			require.ErrorIs(t, err, refusal.Oversized)
			return
		}
		require.Equal(t, m, must.Get(parseMarker(text))(t))
	})
}

// A token file is one line. No error has its content.
func FuzzToken(f *testing.F) {
	f.Add("gated@pve!gate=11111111-2222-4333-8444-555555555555\n")
	f.Add("AB:CD")
	f.Fuzz(func(t *testing.T, s string) {
		id, secret, err := parseToken("file", s)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
		} else {
			require.Contains(t, []string{id + "=" + secret, id + "=" + secret + "\n"}, s)
		}
		if pin, err := ParseFingerprint(s); err == nil {
			require.Equal(t, pin, must.Get(ParseFingerprint(spelled(pin)))(t))
		}
	})
}

// A configuration in a backup never makes a guest that is another one than its identity says: what has neither a uuid, a birth nor a
// network address is no guest's own, also not its own.
func FuzzArchived(f *testing.F) {
	f.Add("#gated%3A {\"birth\"%3A\"b\",\"labels\"%3A{},\"protected\"%3Afalse,\"vmid\"%3A100}\nname: web\nsmbios1: uuid=u1\nmeta: creation-qemu=9,ctime=7\n#qmdump#map:scsi0:drive-scsi0:local:raw:\n")
	f.Add("net0: virtio=BC:24:11:00:00:01,bridge=vmbr0\nscsi0: local-lvm:vm-100-disk-0,size=1G\n[snap]\nname: old\n")
	f.Add("lxc.mount: a\nlxc.mount: b\n#%zz\nname: a\nname: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []string{qemu, lxc} {
			g, err := parseArchived(row{vmid: 100, kind: kind}, text)
			if err != nil {
				require.ErrorIs(t, err, errUnread)
				continue
			}
			s := g.self()
			known := s.uuid != "" || s.birth != "" || len(s.hwaddrs) > 0
			require.Equal(t, known, s.is(s))
			other := s
			other.uuid, other.birth, other.hwaddrs = s.uuid+"x", s.birth+"x", nil
			require.False(t, s.is(other))
			later, err := parseArchived(row{vmid: 100, kind: kind}, text+"\n[snap]\nsmbios1: uuid=other\n")
			require.NoError(t, err)
			require.Equal(t, s, later.self(), "what a snapshot had is not what the guest has")
		}
	})
}
