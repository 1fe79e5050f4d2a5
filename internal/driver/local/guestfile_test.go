package local

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

const soundGuestFile = `{"uuid":"b-1","inode":7,"birth_ns":9,"memory_mib":512,"cpus":2,"command":"web",` +
	`"labels":{"tier":"prod; $(rm -rf /) \"'"},"protected":true,"created_at":"2026-03-01T12:00:00Z"}`

func TestGuestFileRoundTrip(t *testing.T) {
	s := must.Get(parseSpec([]byte(soundGuestFile)))(t)
	require.Equal(t, spec{UUID: "b-1", Inode: 7, Birth: 9, Memory: 512, CPUs: 2, Command: "web",
		Labels: map[string]string{"tier": `prod; $(rm -rf /) "'`}, Protected: true,
		CreatedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, s)
	b := must.Get(s.encode())(t)
	require.Equal(t, s, must.Get(parseSpec(b))(t))
}

// TestGuestFileMutations makes one change at a time in a sound file.
func TestGuestFileMutations(t *testing.T) {
	members := []string{`"uuid":"b-1",`, `"inode":7,`, `"birth_ns":9,`, `"memory_mib":512,`, `"cpus":2,`, `"command":"web",`,
		`"labels":{"tier":"prod; $(rm -rf /) \"'"},`, `"protected":true,`}
	bad := map[string]string{
		"created_at missing": strings.Replace(soundGuestFile, `,"created_at":"2026-03-01T12:00:00Z"`, "", 1),
		"truncated":          soundGuestFile[:len(soundGuestFile)/2],
		"empty":              "",
		"null":               "null",
		"two values":         soundGuestFile + soundGuestFile,
		"trailing bytes":     soundGuestFile + "x",
		"unknown member":     strings.Replace(soundGuestFile, `"cpus"`, `"mounts":[],"cpus"`, 1),
		"other case":         strings.Replace(soundGuestFile, `"protected"`, `"Protected"`, 1),
		"negative memory":    strings.Replace(soundGuestFile, "512", "-1", 1),
		"float":              strings.Replace(soundGuestFile, `"cpus":2`, `"cpus":2.5`, 1),
		"string number":      strings.Replace(soundGuestFile, `"cpus":2`, `"cpus":"2"`, 1),
		"path command":       strings.Replace(soundGuestFile, `"web"`, `"../web"`, 1),
		"path uuid":          strings.Replace(soundGuestFile, `"b-1"`, `"../b"`, 1),
		"uuid with a colon":  strings.Replace(soundGuestFile, `"b-1"`, `"b:1"`, 1),
		"long uuid":          strings.Replace(soundGuestFile, `"b-1"`, `"`+strings.Repeat("b", 65)+`"`, 1),
		"bidi label":         strings.Replace(soundGuestFile, "prod", "pr\u202eod", 1),
		"label name":         strings.Replace(soundGuestFile, `"tier"`, `"ti er"`, 1),
	}
	for _, m := range members {
		require.Contains(t, soundGuestFile, m)
		name := m[:strings.IndexByte(m, ':')]
		bad[name+" missing"] = strings.Replace(soundGuestFile, m, "", 1)
		bad[name+" twice"] = strings.Replace(soundGuestFile, m, m+m, 1)
		bad[name+" null"] = strings.Replace(soundGuestFile, m, name+":null,", 1)
	}
	for name, text := range bad {
		require.NotEqual(t, soundGuestFile, text, name)
		must.Err(parseSpec([]byte(text)))(t, name)
	}
}
