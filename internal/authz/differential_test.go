package authz_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// The promise of protocol section 3: gated never accepts a signature that ssh-keygen
// -Y verify refuses with the same file. This test runs the real ssh-keygen over the
// corpus: a part of it with the other tests, and all of it with
// scripts/differential.sh.

// zones are time zones for ssh-keygen that need no zone files.
var zones = []string{"UTC0", "AAA+11", "BBB-14"}

// comparison asks both programs about the corpus and counts the answers.
type comparison struct {
	t        *testing.T
	dir      string
	payload  []byte
	verifier authz.Verifier
	armors   map[signature]string
	zones    int // in how many zones an acceptance is checked

	asked, accepted, bothRefuse, calls int
	acceptedOf                         map[string]int // by the type of key or certificate
	stricter                           map[string]int // by row of the page
	rows                               rows
	looser                             []string
}

// corpusSize is how much of the corpus is used. GATED_DIFFERENTIAL=full means all of
// it, and GATED_DIFFERENTIAL_SEED begins at another seed.
func corpusSize(t *testing.T) (first uint64, files, attempts, zones int) {
	t.Helper()
	if s := os.Getenv("GATED_DIFFERENTIAL_SEED"); s != "" {
		n := must.Get(strconv.ParseUint(s, 10, 64))(t)
		first = n
	}
	if os.Getenv("GATED_DIFFERENTIAL") == "full" {
		return first, 2000, 5, 2
	}
	return first, 125, 4, 1
}

func TestNeverLooserThanSSHKeygen(t *testing.T) {
	t.Parallel()
	first, files, attempts, zones := corpusSize(t)
	c := comparison{
		t: t, dir: t.TempDir(), payload: payloadOf(t), armors: map[signature]string{}, zones: zones,
		acceptedOf: map[string]int{}, stricter: map[string]int{}, rows: readRows(t),
	}
	c.verifier = authz.Verifier{Gate: examplePayload.Gate, Host: examplePayload.Host, Roles: []op.Role{"manager"}, MaxValidity: time.Hour, Passkeys: consoles}
	corpus := newCorpus(t)
	for seed := first; seed < first+uint64(files); seed++ {
		c.document(seed, corpus.document(seed, attempts))
	}
	c.report(first, files)
	require.Empty(t, c.looser, "accepted what ssh-keygen refuses")
	require.Equal(t, files*attempts, c.asked)
	// A corpus that is all odd, or all refused, would prove nothing.
	require.GreaterOrEqual(t, c.accepted, c.asked/6, "too little is good")
	require.GreaterOrEqual(t, c.bothRefuse, c.asked/10, "too little is bad")
	for _, s := range corpus.plain {
		require.NotZero(t, c.acceptedOf[s.key.Type()], s.key.Type())
	}
	require.NotZero(t, c.acceptedOf["passkey"])
	require.NotZero(t, c.acceptedOf["certificate"])
}

// document asks about one file.
func (c *comparison) document(seed uint64, d document) {
	c.t.Helper()
	trustFile := filepath.Join(c.dir, "allowed_signers")
	require.NoError(c.t, os.WriteFile(trustFile, []byte(d.text), 0o600))
	trust, loadErr := authz.LoadTrust([]byte(d.text))
	if loadErr == nil && d.revoked != "" {
		revoked := must.Get(authz.LoadRevoked([]byte(d.revoked)))(c.t)
		trust = trust.WithRevoked(revoked)
	}
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, "revoked"), []byte(d.revoked), 0o600))
	for i, a := range d.attempts {
		c.asked++
		armored, made := c.armors[a.signature]
		if !made {
			armored = a.armored(c.t, c.payload)
			c.armors[a.signature] = armored
		}
		require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, "sig"), []byte(armored), 0o600))
		var signer authz.Signer
		err := loadErr
		if err == nil {
			signer, err = authz.VerifyFile(c.payload, armored, trust, a.at)
			c.agree(armored, trust, a.at, signer, err)
		}
		if err != nil {
			c.refused(d, a, err)
			continue
		}
		c.accepted++
		c.acceptedOf[kind(a.subject)]++
		for z := range c.zones {
			zone := zones[(int(seed)+i+z)%len(zones)]
			if out, ok := c.keygen(d, signer.Principal, a, zone); !ok {
				c.looser = append(c.looser, fmt.Sprintf("seed %d, attempt %d, %s, TZ=%s\nthe file:\n%q\nrevoked:\n%q\nwe say: %s\nssh-keygen says: %s",
					seed, i, a, zone, d.text, d.revoked, signer.Principal, out))
			}
		}
	}
}

// agree checks that Verifier gives the same answer as VerifyFile.
func (c *comparison) agree(armored string, trust *authz.Trust, at time.Time, want authz.Signer, wantErr error) {
	c.t.Helper()
	if at.Before(examplePayload.IssuedAt) || at.After(examplePayload.ExpiresAt) {
		return
	}
	v := c.verifier
	v.Trust = trust
	approval, err := v.Approval(authz.Envelope{Payload: c.payload, Signatures: []string{armored}}, at)
	if wantErr != nil {
		require.ErrorIs(c.t, err, refusal.CodeOf(wantErr))
		return
	}
	require.NoError(c.t, err)
	require.Equal(c.t, []authz.Signer{want}, approval.Signers)
}

func (c *comparison) refused(d document, a attempt, err error) {
	c.t.Helper()
	if _, ok := c.keygen(d, a.principal, a, zones[0]); !ok {
		c.bothRefuse++
		return
	}
	row := c.rows.of(err)
	require.NotEmpty(c.t, row, "no row of docs/formats says that we are stricter here: %v\n%s, as %q\n%q", err, a, a.principal, d.text)
	c.stricter[row]++
}

// keygen asks ssh-keygen about the signature and the files in dir.
func (c *comparison) keygen(d document, principal string, a attempt, zone string) (string, bool) {
	c.calls++
	args := []string{"-Y", "verify", "-f", "allowed_signers", "-I", principal, "-n", a.namespace, "-s", "sig",
		"-O", "verify-time=" + a.at.UTC().Format("20060102150405Z")}
	if d.revoked != "" {
		args = append(args, "-r", "revoked")
	}
	cmd := exec.Command("ssh-keygen", args...)
	cmd.Dir, cmd.Stdin = c.dir, bytes.NewReader(c.payload)
	cmd.Env = append(os.Environ(), "TZ="+zone, "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func kind(s *subject) string {
	switch {
	case s.cert != nil:
		return "certificate"
	case s.page:
		return "passkey"
	}
	return s.key.Type()
}

func (c *comparison) report(first uint64, files int) {
	c.t.Logf("differential: %d files from seed %d, %d questions, %d calls of ssh-keygen: %d accepted by both, %d refused by both, %d looser",
		files, first, c.asked, c.calls, c.accepted-len(c.looser), c.bothRefuse, len(c.looser))
	for _, k := range slices.Sorted(maps.Keys(c.acceptedOf)) {
		c.t.Logf("%6d accepted by both: %s", c.acceptedOf[k], k)
	}
	for _, row := range slices.Sorted(maps.Keys(c.stricter)) {
		c.t.Logf("%6d accepted by ssh-keygen alone: %s", c.stricter[row], row)
	}
}
