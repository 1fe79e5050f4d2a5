package authz

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/op"
)

func sshKeygen(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	return path
}

// privateCopy copies a test key to where ssh-keygen will use it.
func privateCopy(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "keys", name))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// opensshVerifies asks the real ssh-keygen, at a time of the test's choosing.
func opensshVerifies(t testing.TB, dir, allowed, armored, principal, namespace string, payload []byte, at time.Time) error {
	t.Helper()
	trustFile, sigFile := filepath.Join(dir, "allowed_signers"), filepath.Join(dir, "sig")
	require.NoError(t, os.WriteFile(trustFile, []byte(allowed), 0o600))
	require.NoError(t, os.WriteFile(sigFile, []byte(armored), 0o600))
	cmd := exec.Command(sshKeygen(t), "-Y", "verify", "-f", trustFile, "-I", principal, "-n", namespace, "-s", sigFile,
		"-O", "verify-time="+at.UTC().Format("20060102150405Z"))
	cmd.Stdin = bytes.NewReader(payload)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestSignedBySSHKeygen(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	for _, name := range mutatedKeys {
		for _, hash := range []string{"sha512", "sha256"} {
			cmd := exec.Command(sshKeygen(t), "-Y", "sign", "-n", "operational@gated", "-O", "hashalg="+hash, "-f", privateCopy(t, name))
			cmd.Stdin = bytes.NewReader(payload)
			armored, err := cmd.Output()
			require.NoError(t, err)
			got, err := v.Approval(Envelope{Payload: payload, Signatures: []string{string(armored)}}, issued)
			require.NoError(t, err, "%s %s", name, hash)
			require.Len(t, got.Signers, 1)
		}
	}
}

// TestLinesThatBothRead shows that the lines which we accept mean the same to
// ssh-keygen, whose parser is another one.
func TestLinesThatBothRead(t *testing.T) {
	t.Parallel()
	alice, payload, dir := testKey(t, "alice"), encode(t, testPayload), t.TempDir()
	key := publicText(t, "alice")
	armored := mint(t, alice, "operational@gated", sshsig.HashSHA512, payload).armored()
	for _, c := range []struct{ line, principal string }{
		{`alice namespaces="operational@gated" KEY`, "alice"},
		{"\t alice \t namespaces=\"operational@gated\"\t \tKEY\tcomment", "alice"},
		{`"alice" namespaces="operational@gated" KEY`, "alice"},
		{`"alice smith" namespaces="operational@gated" KEY`, "alice smith"},
		{`"#alice" namespaces="operational@gated" KEY`, "#alice"},
		{`al\ice namespaces="operational@gated" KEY`, `al\ice`},
		{`ålice@example.com namespaces="operational@gated" KEY`, "ålice@example.com"},
		{strings.Repeat("a", 255) + ` namespaces="operational@gated" KEY`, strings.Repeat("a", 255)},
		{`alice namespaces="git,operational@gated,` + strings.Repeat("n", 255) + `" KEY`, "alice"},
		{`alice valid-after="20310504120000Z",namespaces="operational@gated",valid-before="203105041201Z" KEY`, "alice"},
		{"# one\n\n \nbob namespaces=\"git\" KEY\nalice namespaces=\"operational@gated\" KEY", "alice"},
	} {
		allowed := strings.ReplaceAll(c.line, "KEY", key)
		signer, err := VerifyFile(payload, armored, loadTrust(t, allowed), issued)
		require.NoError(t, err, c.line)
		require.Equal(t, c.principal, signer.Principal)
		require.NoError(t, opensshVerifies(t, dir, allowed, armored, c.principal, "operational@gated", payload, issued), c.line)
	}
}

// generated is a trust file and a signature, near enough to good ones that
// many are.
type generated struct {
	allowed   string
	key       string
	namespace string
	at        time.Time
	width     int
}

func generate(t *rapid.T, keys map[string]string) generated {
	one := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	// A line has at most one oddity, or next to no file would be good.
	odd := ""
	or := func(name, usual string, oddities ...string) string {
		if odd == name {
			return one(name, oddities...)
		}
		return usual
	}
	var lines []string
	for range rapid.IntRange(1, 3).Draw(t, "lines") {
		odd = one("odd", "", "", "", "indent", "principal", "gap", "namespaces", "comma", "time", "tail", "comment")
		options := []string{`namespaces="` + or("namespaces", one("usual", "operational@gated", "git,operational@gated", "git"),
			"recovery@gated,operational@gated", "operational@gated,!git", "*", "operational@gated,") + `"`}
		for _, o := range []string{"valid-after", "valid-before"} {
			if rapid.Bool().Draw(t, o) {
				usual := map[string]string{"valid-after": "203105041200Z", "valid-before": "20310504120001Z"}[o]
				options = append(options, o+`="`+or("time", usual, "20310504Z", "20310504120000Z", "20310505Z", "20310504")+`"`)
			}
		}
		if rapid.Bool().Draw(t, "turned") {
			slices.Reverse(options)
		}
		line := or("indent", "", " ", "\t", " \t ") +
			or("principal", one("usual", "alice", `"alice"`), `"al ice"`, "alice@example.com", `"a\"`, "a,b", `al"ice"`, "#a", `"#a"`) +
			or("gap", " ", "\t", "  ", "") + strings.Join(options, or("comma", ",", " ", ", ", ",,")) + or("gap", " ", "\t ", "") +
			keys[one("listed", "alice", "alice", "bob")] + or("tail", "", " comment", " a \"b", "\t", "\r")
		lines = append(lines, or("comment", line, "", "# comment", " \t# alice", "#", "#"+line))
	}
	return generated{
		allowed:   strings.Join(lines, "\n") + one("end", "\n", ""),
		key:       one("key", "alice", "alice", "bob"),
		namespace: one("namespace", "operational@gated", "operational@gated", "recovery@gated"),
		at:        issued.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "seconds")) * time.Second),
		width:     rapid.SampledFrom([]int{64, 70, 76}).Draw(t, "width"),
	}
}

// TestNeverLooserThanSSHKeygen is the promise of protocol section 3, on a
// corpus whose seeds are fixed: what we accept, ssh-keygen accepts, with the
// principal that we report.
func TestNeverLooserThanSSHKeygen(t *testing.T) {
	t.Parallel()
	sshKeygen(t)
	payload, dir := encode(t, testPayload), t.TempDir()
	keys := map[string]string{"alice": publicText(t, "alice"), "bob": publicText(t, "bob")}
	gen := rapid.Custom(func(t *rapid.T) generated { return generate(t, keys) })
	var accepted, refusedFile, refusedSignature int
	for seed := range 400 {
		g := gen.Example(seed)
		trust, err := LoadTrust([]byte(g.allowed))
		if err != nil {
			refusedFile++
			continue
		}
		armored := armorLines(mint(t, testKey(t, g.key), g.namespace, sshsig.HashSHA512, payload).blob(), g.width)
		signer, err := VerifyFile(payload, armored, trust, g.at)
		if err != nil {
			refusedSignature++
			continue
		}
		accepted++
		require.NoError(t, opensshVerifies(t, dir, g.allowed, armored, signer.Principal, g.namespace, payload, g.at),
			"seed %d, at %s, by %s:\n%s", seed, g.at, g.key, g.allowed)
	}
	t.Logf("%d accepted, %d files and %d signatures refused", accepted, refusedFile, refusedSignature)
	require.Greater(t, accepted, 40, "the corpus has to hold enough that is good")
	require.Greater(t, refusedFile, 40)
	require.Greater(t, refusedSignature, 10)
}

// TestRefusedLinesMayBeFineForSSHKeygen pins where we are stricter on purpose:
// these are documented in docs/formats/allowed-signers.md.
func TestRefusedLinesMayBeFineForSSHKeygen(t *testing.T) {
	t.Parallel()
	payload, dir := encode(t, testPayload), t.TempDir()
	armored := mint(t, testKey(t, "alice"), "operational@gated", sshsig.HashSHA512, payload).armored()
	for _, line := range []string{
		`alice KEY`, `alice,bob namespaces="operational@gated" KEY`, `al* namespaces="operational@gated" KEY`,
		`alice namespaces="*@gated" KEY`, `alice namespaces="operational@gated,!git" KEY`,
		`alice Namespaces="operational@gated" KEY`, `"alice"namespaces="operational@gated" KEY`,
		`alice namespaces="operational@gated",valid-after="20310504" KEY`,
		`alice namespaces="operational@gated",valid-after="20310231Z" KEY`,
		`alice namespaces="operational@gated",valid-after="20310504UTC" KEY`,
		"alice namespaces=\"operational@gated\" KEY\x00junk",
		"alice namespaces=\"operational@gated\" KEY comment\r",
	} {
		allowed := strings.ReplaceAll(line, "KEY", publicText(t, "alice"))
		require.NoError(t, opensshVerifies(t, dir, allowed, armored, "alice", "operational@gated", payload, issued.AddDate(0, 1, 0)), line)
		_, err := LoadTrust([]byte(allowed))
		require.ErrorIs(t, err, op.Malformed, line)
	}
}
