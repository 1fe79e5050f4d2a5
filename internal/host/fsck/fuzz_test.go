package fsck

import (
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// FuzzUndo: an accepted undo is an operation and parameters, and nothing else.
func FuzzUndo(f *testing.F) {
	f.Add(`{"op":"guest.undelete","params":{"incarnation":"a:1:2"}}`)
	f.Add(`{"op":"guest.destroy","target":"guest/other","params":{}}`)
	f.Add(`{"op":"guest.destroy","op":"guest.stop","params":{}}`)
	f.Add(`{"Op":"guest.destroy"}`)
	f.Fuzz(func(t *testing.T, text string) {
		name, params, ok := parseUndo(text)
		if !ok {
			return
		}
		d := jsontext.NewDecoder(strings.NewReader(text))
		members := map[string]bool{}
		for {
			tok, err := d.ReadToken()
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			if d.StackDepth() != 1 {
				continue
			}
			if kind, n := d.StackIndex(1); kind == '{' && n%2 == 1 {
				members[tok.String()] = true
			}
		}
		delete(members, "op")
		delete(members, "params")
		require.Empty(t, members)
		require.True(t, name == "" || strings.Contains(text, "op"))
		_, again, ok := parseUndo(`{"params":` + string(params.Canonical()) + `}`)
		require.True(t, ok)
		require.True(t, params.Equal(again))
	})
}
