package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// FuzzInterpreter: a first line gives a reason, or an absolute path and at most one option.
// These, written again, read as the same.
func FuzzInterpreter(f *testing.F) {
	for _, seed := range []string{"#!/bin/sh\n", "#! /bin/sh -e x \n", "#!\t/bin/sh\t-e\t\n", "#!/usr/bin/env python3\n", "#!", "#!sh", "\x7fELF", "",
		"#!/bin/../sh\n", "#!/bin/sh\x00\n", "#!" + strings.Repeat("/a", 200)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		head = head[:min(len(head), headLength)]
		path, option, why := parseInterpreter(head)
		if why != "" {
			require.Empty(t, path+option)
			return
		}
		require.True(t, filepath.IsAbs(path) && filepath.Clean(path) == path, "%q", path)
		require.False(t, strings.ContainsAny(path, " \t\n"), "%q", path)
		require.NotContains(t, option, "\n")
		require.Equal(t, strings.Trim(option, " \t"), option)
		again, same, why := parseInterpreter([]byte("#!" + path + " " + option + "\n"))
		require.Empty(t, why)
		require.Equal(t, path+"\n"+option, again+"\n"+same)
	})
}

// FuzzShown: every output becomes text that displays as it is and that a second pass does not
// change. The stored part stays within its bound.
func FuzzShown(f *testing.F) {
	f.Add([]byte("plain\n\ttext é"), uint16(300))
	f.Add([]byte("\x1b[2J\xff\xe2\x80\xae\r\n\r\x00"), uint16(256))
	f.Add([]byte(strings.Repeat("é\x00", 400)), uint16(256))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16) {
		text := shown(b)
		plain := strings.NewReplacer("\n", "", "\t", "").Replace(text)
		require.NoError(t, op.CheckText("", plain))
		require.Equal(t, text, shown([]byte(text)))
		c := &capture{limit: int(max(limit, 256))}
		for i, half := 0, len(b)/2; i < 2; i, half = i+1, len(b)-half {
			n := must.Get(c.Write(b[i*(len(b)-half) : i*(len(b)-half)+half]))(t)
			require.Equal(t, half, n)
		}
		require.Equal(t, int64(len(b)), int64(len(c.bytes()))+c.dropped)
		if c.dropped == 0 {
			require.Equal(t, string(b), string(c.bytes()))
		}
		kept := c.text()
		require.LessOrEqual(t, len(kept), c.limit)
		require.NoError(t, op.CheckText("", strings.NewReplacer("\n", "", "\t", "").Replace(kept)))
	})
}
