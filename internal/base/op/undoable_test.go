package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// TestWhetherItCanBeUndone has each operation, without a word of its driver.
func TestWhetherItCanBeUndone(t *testing.T) {
	hand := map[string]string{"guest.create": "destroy it", "guest.clone": "destroy it", "guest.undelete": "destroy it", "guest.set-config": "change it back",
		"guest.backup": "delete the backup", op.ReleaseAll: "its holders reserve again", op.ForceTransfer: "transfer it back", op.Rotate: "rotate again"}
	for _, s := range op.Catalogue() {
		level, words := s.Undoable(op.Params{}, "any", nil)
		if how := hand[s.Name]; how != "" {
			require.Equal(t, op.ByHand, level, s.Name)
			require.Equal(t, "can be undone by hand: "+how, words)
			delete(hand, s.Name)
			continue
		}
		require.Equal(t, op.Gone, level, s.Name)
		require.Equal(t, op.CannotUndo, words)
	}
	require.Empty(t, hand)
	level, _ := lookup(t, "guest.backup").Undoable(op.Params{"rotate": true}, "any", nil)
	require.Equal(t, op.Gone, level)
	level, words := op.Spec{}.Undoable(nil, op.SignedByRule, nil)
	require.Equal(t, op.Gone, level, "an operation of a newer gate")
	require.Equal(t, op.CannotUndo, words)
}

// TestOnlyTheTrashMakesItUndoable: a fact counts if it is about the operation, says until when, and no other contradicts it.
func TestOnlyTheTrashMakesItUndoable(t *testing.T) {
	const until, hand = "can be undone until 2026-01-06T03:04:05Z", "can be undone by hand until 2026-01-06T03:04:05Z: copy it"
	fact := func(name, text string) op.Fact { return op.Fact{Name: name, Text: text} }
	for _, c := range []struct {
		op    string
		facts []op.Fact
		want  op.Undoable
	}{
		{"guest.destroy", []op.Fact{fact("destroy", until)}, op.InTime},
		{"guest.destroy", []op.Fact{fact("wipe, destroy", until)}, op.InTime},
		{"guest.destroy", []op.Fact{fact("undo", until)}, op.Gone},
		{"guest.destroy", []op.Fact{fact("destroy, fly", until)}, op.Gone},
		{"guest.destroy", []op.Fact{fact("destroy", until), fact("destroy", "cannot be undone")}, op.Gone},
		{"guest.destroy", []op.Fact{fact("destroy", until), fact("destroy", "can be undone until never")}, op.Gone},
		{"guest.wipe", []op.Fact{fact("destroy", until)}, op.Gone},
		{op.Run, []op.Fact{fact("destroy", until), fact("run", until)}, op.Gone},
		{"guest.wipe", []op.Fact{fact("wipe, restore", hand)}, op.ByHandUntil},
		{"guest.destroy", []op.Fact{fact("wipe, restore", hand)}, op.Gone},
		{"guest.wipe", []op.Fact{fact("undo", hand)}, op.Gone},
		{"guest.wipe", []op.Fact{fact("wipe", hand), fact("wipe", until)}, op.Gone},
		{"guest.wipe", []op.Fact{fact("wipe", hand), fact("wipe", "cannot be undone")}, op.Gone},
		{"guest.wipe", []op.Fact{fact("wipe", "can be undone by hand")}, op.Gone},
		{"guest.wipe", []op.Fact{fact("wipe", "cannot be undone (the old files are in the trash until 2026-01-06T03:04:05Z)")}, op.Gone},
		{"guest.set-config", []op.Fact{fact("set-config", "cannot be undone")}, op.Gone},
	} {
		level, words := lookup(t, c.op).Undoable(op.Params{}, "any", c.facts)
		require.Equal(t, c.want, level, c)
		require.Equal(t, map[op.Undoable]string{op.Gone: op.CannotUndo, op.ByHandUntil: hand, op.InTime: until}[c.want], words)
	}
	for name, want := range map[string]op.Undoable{"guest.stop": op.ByHand, "guest.snapshot": op.ByHand, "guest.destroy": op.Gone, "guest.wipe": op.Gone} {
		level, words := lookup(t, name).Undoable(op.Params{}, op.SignedByRule, nil)
		require.Equal(t, want, level, name)
		require.Equal(t, want == op.ByHand, words == op.LosesNothing, "a gate that lies about the rule hides no loss")
	}
}
