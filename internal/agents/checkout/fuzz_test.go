package checkout

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAccessList: an access list is read whole or not at all, and gives nobody
// more than its entries say together.
func FuzzAccessList(f *testing.F) {
	list := func(entries ...aclEntry) []byte {
		b := binary.LittleEndian.AppendUint32(nil, aclVersion)
		for _, e := range entries {
			b = binary.LittleEndian.AppendUint16(b, e.tag)
			b = binary.LittleEndian.AppendUint16(b, e.permissions)
			b = binary.LittleEndian.AppendUint32(b, e.id)
		}
		return b
	}
	f.Add(list(aclEntry{1, 7, 0}, aclEntry{aclUser, 7, 1000}, aclEntry{aclMask, 5, 0}, aclEntry{aclOther, 0, 0}), uint32(1000))
	f.Add(list(aclEntry{aclGroup, 2, 5}, aclEntry{aclOther, 2, 0}), uint32(7))
	f.Add(list(aclEntry{aclOther, 2, 0})[:7], uint32(7))
	f.Add([]byte{1, 0, 0, 0}, uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, uid uint32) {
		l := parseACL(b)
		var entries []aclEntry
		for _, e := range l {
			entries = append(entries, e)
		}
		if l != nil {
			require.Equal(t, b, list(entries...), "bytes that nobody read")
		}
		any := false
		for _, e := range l {
			any = any || e.permissions&aclWrite != 0
		}
		if l.writable(uid, []uint32{5, uid}, 5) {
			require.True(t, any, "write access from nowhere")
		}
	})
}
