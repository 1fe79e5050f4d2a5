package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/mint"
)

// keysIn runs keys over a home with these public files.
func keysIn(t *testing.T, files, trust string, now time.Time, args ...string) (out, beside string) {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.Rename(files, filepath.Join(home, ".ssh")))
	tl, stdout, stderr := toolWith(map[string]string{"HOME": home, "GATED_SOCKET": filepath.Join(home, "no-gate")}, now)
	if trust != "" {
		path := filepath.Join(home, "allowed_signers")
		require.NoError(t, os.WriteFile(path, []byte(trust), 0o600))
		args = append(args, "--allowed-signers", path)
	}
	require.Zero(t, tl.run(t.Context(), append([]string{"keys"}, args...)), stderr.String())
	return stdout.String(), strings.ReplaceAll(stderr.String(), home, "~")
}

func lineWith(t *testing.T, text, part string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	t.Fatalf("no line with %s in\n%s", part, text)
	return ""
}

func TestKeysSaysWhatTheyAreAndMay(t *testing.T) {
	now := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	ca, soft, moved := mint.Ed25519(t, "ca"), mint.Ed25519(t, "soft"), mint.ECDSA(t, "coordinator", 256)
	device := mint.SKEd25519(t, "device", mint.Touched)
	trust := soft.Line("alice@example.com", `namespaces="operational@gated"`) +
		soft.Line("alice@example.com", `namespaces="manager@gated",valid-before="20300101Z"`) +
		moved.Line("bob@example.com", `namespaces="coordination@gated"`) +
		device.Line("carol@example.com", `namespaces="operational@gated,recovery@gated"`) +
		ca.Line("*@example.com", `cert-authority,namespaces="operational@gated"`)
	files := func() string {
		dir := t.TempDir()
		soft.WriteFile(t, dir)
		moved.WriteFile(t, dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "device.pub"), []byte(device.Text()+" device\n"), 0o600))
		cert := mint.Certify(ca, device, "carol@example.com")
		cert.ValidAfter, cert.ValidBefore = now, now.Add(time.Hour)
		cert.WriteFile(t, dir)
		old := mint.Certify(ca, mint.Ed25519(t, "old"), "old@example.com")
		old.ValidBefore = now
		old.WriteFile(t, dir)
		return dir
	}
	out, beside := keysIn(t, files(), trust, now)
	require.Contains(t, lineWith(t, out, "soft.pub"), "software")
	require.Contains(t, lineWith(t, out, "soft.pub"),
		"may sign as operational (alice@example.com); may sign as manager (alice@example.com), but not at this time")
	require.Contains(t, lineWith(t, out, "device.pub"), "security key")
	require.Contains(t, lineWith(t, out, "device.pub"), "may sign as recovery (carol@example.com)")
	cert := lineWith(t, out, "device-cert.pub")
	require.Contains(t, cert, "security key, certificate of carol@example.com by "+ca.Fingerprint()+
		", from 2031-05-04T12:00:00Z to 2031-05-04T13:00:00Z")
	require.NotContains(t, cert, "not valid")
	require.Contains(t, cert, "may sign as operational (carol@example.com)")
	require.NotContains(t, cert, "recovery")
	require.Contains(t, lineWith(t, out, "old-cert.pub"), "not valid now")
	require.Contains(t, lineWith(t, out, "old-cert.pub"), "but not at this time")

	// Only software keys that may destroy are warned of, and there is a way out.
	require.Equal(t, 1, strings.Count(beside, "warning: "), beside)
	require.Contains(t, beside, "warning: "+soft.Fingerprint()+" is a software key and may sign as operational\n")
	require.Contains(t, beside, "ssh-keygen -t ed25519-sk")
	require.Contains(t, beside, "ssh-add -c")

	// Where nobody knows what a key may sign, each software key is one too many.
	out, beside = keysIn(t, files(), "", now)
	require.NotContains(t, out, "may sign as")
	require.Equal(t, 2, strings.Count(beside, "warning: "), beside)

	out, _ = keysIn(t, files(), trust, now, "--json")
	require.Equal(t, 5, strings.Count(out, "\n"))
	line := lineWith(t, out, "device-cert.pub")
	require.Contains(t, line, `"security_key":true,"software":false,"certificate":{"ca":"`+ca.Fingerprint()+`","key_id":"device","serial":1,`+
		`"principals":["carol@example.com"],"valid_after":"2031-05-04T12:00:00Z","valid_before":"2031-05-04T13:00:00Z","valid":true}`)
	require.Contains(t, line, `"listed":[{"principal":"carol@example.com","role":"operational","valid":true}],"warning":""`)
	require.Contains(t, lineWith(t, out, "soft.pub"), `"certificate":null,"usable":true,"why":""`)
	require.Contains(t, lineWith(t, out, "soft.pub"), `"warning":"`+soft.Fingerprint()+` is a software key`)
}

func TestKeysOfNobody(t *testing.T) {
	out, beside := keysIn(t, t.TempDir(), "", time.Time{})
	require.Empty(t, out)
	require.Equal(t, "no key in ssh-agent and none in ~/.ssh\n", beside)
}
