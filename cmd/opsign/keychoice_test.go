package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh/agent"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/sign"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func TestRoleFor(t *testing.T) {
	for _, c := range []struct {
		flag string
		may  []op.Role
		want op.Role
		exit int
	}{
		{"", nil, op.Operational, 0},
		{"", []op.Role{op.Operational, op.Recovery}, op.Operational, 0},
		{"", []op.Role{"manager", op.Operational}, op.Operational, 0},
		{"", []op.Role{"manager"}, "manager", 0},
		{"", []op.Role{op.Coordination}, op.Coordination, 0},
		{"", []op.Role{"manager", "security"}, "", api.ExitUsage},
		{"manager", []op.Role{op.Operational, "manager"}, "manager", 0},
		{"manager", nil, "manager", 0},
		{"manager", []op.Role{op.Operational}, "", api.ExitRefused},
		{"recovery", []op.Role{op.Operational}, "", api.ExitRefused},
		{"Manager", []op.Role{"manager"}, "", api.ExitUsage},
		{"operational@gated", nil, "", api.ExitUsage},
	} {
		got, err := keyFlags{role: c.flag}.roleFor(c.may)
		require.Equal(t, c.want, got, c)
		if c.exit != 0 {
			require.Equal(t, c.exit, api.Exit(err), c)
			continue
		}
		require.NoError(t, err, c)
	}
	require.ErrorContains(t, must.Err(keyFlags{}.roleFor([]op.Role{"manager", "security"}))(t), "manager, security")
	must.Fail(keyFlags{role: "recovery"}.roleFor([]op.Role{op.Operational}))(t, refusal.RoleDenied)
}

func TestOfflineRoles(t *testing.T) {
	spec := must.Get(op.Lookup("guest.destroy"))(t)
	require.Equal(t, spec.Roles, offlineRoles(spec, ""))
	require.Equal(t, spec.Roles, offlineRoles(spec, op.Recovery))
	require.Contains(t, offlineRoles(spec, "manager"), op.Role("manager"))
	require.NotContains(t, spec.Roles, op.Role("manager"), "the catalogue stays as it is")
}

// toolWith returns a tool with an environment, and what it says.
func toolWith(env map[string]string, now time.Time) (t *tool, out, beside *bytes.Buffer) {
	t, out, beside = testTool(), new(bytes.Buffer), new(bytes.Buffer)
	t.Stdout, t.Stderr = out, beside
	t.hostState = "" // a gate of this machine has keys of its own
	t.Getenv = func(name string) string { return env[name] }
	t.now = func() time.Time { return now }
	return t, out, beside
}

func TestCertificateGoesWithItsKey(t *testing.T) {
	now, dir := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC), t.TempDir()
	ca, key, other := mint.Ed25519(t, "ca"), mint.Ed25519(t, "key"), mint.Ed25519(t, "other")
	path, otherPath := key.WriteFile(t, dir), other.WriteFile(t, dir)
	c := mint.Certify(ca, key, "alice@example.com")
	c.ValidBefore = now.Add(time.Second)
	cert := c.WriteFile(t, dir)
	tl, _, _ := toolWith(nil, now)
	for _, k := range []keyFlags{{cert: cert}, {cert: cert, key: path}} {
		require.NoError(t, tl.check(k))
		s := must.Get(tl.keySigner(t.Context(), k))(t)
		require.Equal(t, "ssh-ed25519-cert-v01@openssh.com", s.PublicKey().Type())
		require.Equal(t, key.Fingerprint(), s.Fingerprint())
	}
	s := must.Get(tl.keySigner(t.Context(), keyFlags{key: path}))(t)
	require.Equal(t, "ssh-ed25519", s.PublicKey().Type(), "never without being named")

	must.Fail(tl.keySigner(t.Context(), keyFlags{cert: cert, key: otherPath}))(t, refusal.UnknownSigner)
	must.Fail(tl.keySigner(t.Context(), keyFlags{cert: path + ".pub", key: path}))(t, refusal.Malformed)
	require.Equal(t, api.ExitUsage, api.Exit(tl.check(keyFlags{cert: filepath.Join(dir, "none")})))
	require.NoError(t, os.Remove(path))
	must.Fail(tl.keySigner(t.Context(), keyFlags{cert: cert}))(t, refusal.Unavailable, "no key, no agent")
	tl, _, _ = toolWith(nil, now.Add(time.Second))
	must.Fail(tl.keySigner(t.Context(), keyFlags{cert: cert, key: path}))(t, refusal.SignerExpired)
}

// signerStub signs without a key.
type signerStub struct{ sign.Signer }

func (signerStub) Sign(context.Context, op.Role, []byte) (string, error) { return "armor", nil }

func TestASecurityKeyIsAnnounced(t *testing.T) {
	tl, out, beside := toolWith(nil, time.Time{})
	armor := must.Get(touched{signerStub{}, tl}.Sign(t.Context(), op.Operational, nil))(t)
	require.Equal(t, "armor", armor)
	require.Equal(t, "touch the security key...\n", beside.String())
	require.Empty(t, out.String())
}

// counted is a device that counts how often its keys are asked for.
type counted struct {
	device
	lists *atomic.Int32
}

func (c counted) List() ([]*agent.Key, error) { c.lists.Add(1); return c.device.List() }

// The key of a role is found once, however often it is looked for and signs. After a signature that failed, the next
// one looks anew.
func TestTheAgentIsAskedOnceForARole(t *testing.T) {
	var lists atomic.Int32
	key := mint.SKEd25519(t, "sk", mint.Touched)
	env := map[string]string{"SSH_AUTH_SOCK": serveAgent(t, counted{device{key: key}, &lists}), "HOME": t.TempDir()}
	tl, _, beside := toolWith(env, time.Time{})
	keys := must.Get(tl.keyring(keyFlags{}))(t)
	for i, role := range []op.Role{op.Operational, op.Recovery} {
		require.NoError(t, keys.ready(t.Context(), use{role: role}))
		for range 2 {
			s := must.Get(keys.key(t.Context(), use{role: role}))(t)
			require.Equal(t, key.Fingerprint(), s.Fingerprint())
			require.IsType(t, touched{}, s, "a touch is asked for")
		}
		require.EqualValues(t, i+1, lists.Load())
	}
	keys.forget(op.Recovery)
	must.Get(keys.key(t.Context(), use{role: op.Recovery}))(t)
	require.EqualValues(t, 3, lists.Load())
	require.Empty(t, beside.String())
}
