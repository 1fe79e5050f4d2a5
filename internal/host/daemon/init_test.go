package daemon_test

import (
	"crypto/rand"
	"crypto/rsa"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

func TestInitMakesAGate(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.StateDir = filepath.Join(w.dir, "a", "b", "state")
	o.Recovery = []pubkey.Arg{{Path: w.file("bob.pub", strings.Replace(read(t, w.pub), "alice@", "bob@", 1)), Principal: "robert@example.com"}}
	r := must.Get(life.Init(t.Context(), o))(t)
	require.Equal(t, testHost, r.Host)
	require.True(t, r.GateID.Valid())
	require.True(t, r.SingleUser, "these tests do not run as an account of the daemon's own")
	var listed []string
	for _, l := range r.Listed {
		require.True(t, l.Software)
		listed = append(listed, l.Principal)
	}
	require.Equal(t, []string{"alice@example.com", "robert@example.com"}, listed)
	for _, path := range []string{r.Config, r.Signers, r.Database} {
		info := must.Get(os.Stat(path))(t)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
	}
	info := must.Get(os.Stat(r.StateDir))(t)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.Empty(t, must.Get(life.Fsck(t.Context(), r.StateDir))(t).Problems)
}

func TestInitRefusesAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	pem := must.Get(ssh.MarshalPrivateKey(mustRSA(t, 3072), "alice@example.com"))(t)
	weak := must.Get(ssh.NewPublicKey(&mustRSA(t, 2048).PublicKey))(t)
	pub := read(t, w.pub)
	w.file("w.pub", string(ssh.MarshalAuthorizedKey(weak)))
	for name, c := range map[string]struct {
		change func(*life.InitOptions)
		code   refusal.Code
		says   string
	}{
		"no key": {func(o *life.InitOptions) { o.Operators = nil }, refusal.BadParams, "--operator"},
		"a private key": {func(o *life.InitOptions) {
			o.Operators[0].Path = w.file("id", string(pem.Bytes)+"-----BEGIN OPENSSH PRIVATE KEY-----")
		}, refusal.BadParams, "private key"},
		"no such file":        {func(o *life.InitOptions) { o.Operators[0].Path = w.dir + "/none.pub" }, refusal.BadParams, "there is no key file"},
		"a directory":         {func(o *life.InitOptions) { o.Operators[0].Path = w.dir }, refusal.BadParams, "cannot be read"},
		"no key in it":        {func(o *life.InitOptions) { o.Operators[0].Path = w.file("x.pub", "hello\n") }, refusal.BadParams, "x.pub"},
		"two keys in it":      {func(o *life.InitOptions) { o.Operators[0].Path = w.file("2.pub", pub+pub) }, refusal.BadParams, "2.pub"},
		"options before it":   {func(o *life.InitOptions) { o.Operators[0].Path = w.file("o.pub", "no-pty "+pub) }, refusal.BadParams, "o.pub"},
		"a key without name":  {func(o *life.InitOptions) { o.Operators[0].Path = w.file("n.pub", nameless(pub)) }, refusal.BadParams, "n.pub:alice@example.com"},
		"a name that is none": {func(o *life.InitOptions) { o.Operators[0].Path = w.file("s.pub", nameless(pub)+" alice on laptop\n") }, refusal.BadParams, "alice on laptop"},
		"a pattern":           {func(o *life.InitOptions) { o.Operators[0].Principal = "*@example.com" }, refusal.BadParams, "*@example.com"},
		"a weak key": {func(o *life.InitOptions) {
			o.Operators[0].Path = w.dir + "/w.pub"
		}, refusal.BadParams, "w.pub"},
		"a weak key's name":    {func(o *life.InitOptions) { o.Operators[0] = pubkey.Arg{Path: w.dir + "/w.pub", Principal: "a"} }, refusal.Malformed, "w.pub"},
		"a host that is none":  {func(o *life.InitOptions) { o.Host = "a b" }, refusal.BadParams, "--host"},
		"below a file":         {func(o *life.InitOptions) { o.StateDir = w.pub + "/state" }, refusal.BadParams, "--state"},
		"a bad recovery key":   {func(o *life.InitOptions) { o.Recovery = []pubkey.Arg{{Path: "/none"}} }, refusal.BadParams, "/none"},
		"a bad coordinator":    {func(o *life.InitOptions) { o.Coordinators = []pubkey.Arg{{Path: "/none"}} }, refusal.BadParams, "/none"},
		"an unwritable parent": {func(o *life.InitOptions) { o.StateDir = "/proc/x/y" }, refusal.BadParams, "--state"},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.options()
			o.StateDir = filepath.Join(w.dir, "deep", "state")
			c.change(&o)
			before := tree(t, w.dir)
			_, err := life.Init(t.Context(), o)
			require.Equal(t, c.code, refusal.CodeOf(err), "%v", err)
			require.Contains(t, err.Error()+hint(err), c.says)
			require.NotContains(t, err.Error(), strings.Fields(pub)[1], "never key material")
			require.Equal(t, before, tree(t, w.dir))
		})
	}
}

func TestInitWhereThereIsSomething(t *testing.T) {
	w := newInitialised(t)
	before := tree(t, w.state)
	_, err := life.Init(t.Context(), w.options())
	refused(t, err, refusal.Conflict, "holds a gate already", "gated serve --state "+w.state)
	require.Equal(t, before, tree(t, w.state))

	// Files that somebody put there before are not init's to write or to remove.
	for _, name := range []string{"gated.yaml", "allowed_signers"} {
		o := w.options()
		o.StateDir = filepath.Join(w.dir, "mine-"+name)
		require.NoError(t, os.Mkdir(o.StateDir, 0o700))
		mine := filepath.Join(o.StateDir, name)
		require.NoError(t, os.WriteFile(mine, []byte("mine\n"), 0o600))
		_, err = life.Init(t.Context(), o)
		refused(t, err, refusal.Conflict, mine)
		require.Equal(t, "mine\n", read(t, mine))
		entries := must.Get(os.ReadDir(o.StateDir))(t)
		for _, e := range entries {
			require.Contains(t, []string{name, "lock"}, e.Name())
		}
	}

	// Open to others: nothing is written there.
	o := w.options()
	o.StateDir = filepath.Join(w.dir, "open")
	require.NoError(t, os.Mkdir(o.StateDir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(o.StateDir, "x"), nil, 0o600))
	require.NoError(t, os.Chmod(o.StateDir, 0o777))
	_, err = life.Init(t.Context(), o)
	refused(t, err, refusal.NotAllowed, "chmod 0700")
}

// An init that was killed before it made the database: init and the daemon say so, and after what they say, init makes the gate.
func TestInitAfterOneThatWasCutOff(t *testing.T) {
	w := newInitialised(t)
	require.NoError(t, os.Truncate(w.database(), 0))
	_ = os.Remove(w.database() + "-wal")
	before := tree(t, w.state)
	_, err := life.Init(t.Context(), w.options())
	refused(t, err, refusal.Conflict, "gated init was cut off")
	require.Equal(t, before, tree(t, w.state))
	after, _, _ := strings.Cut(refusal.As(err).Hint, ";")
	refused(t, w.run(t.Context()), refusal.Unavailable, after, "if there was a database, a restore")
	require.Contains(t, after, "move the files of that directory away")
	away := t.TempDir()
	for _, e := range must.Get(os.ReadDir(w.state))(t) {
		require.NoError(t, os.Rename(filepath.Join(w.state, e.Name()), filepath.Join(away, e.Name())))
	}
	must.Get(life.Init(t.Context(), w.options()))(t)
	w.serve()
	w.halt()
}

// The log of a database that is lost has its newest entries. No making takes it away, one that is refused later neither.
func TestInitBesideALog(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.Mkdir(w.state, 0o700))
	require.NoError(t, os.WriteFile(w.database()+"-wal", []byte("entries"), 0o600))
	wrong := w.options()
	wrong.Host = "no host"
	for _, o := range []life.InitOptions{w.options(), wrong} {
		_, err := life.Init(t.Context(), o)
		require.Error(t, err)
		require.Equal(t, "entries", read(t, w.database()+"-wal"), "%v", err)
		require.NoFileExists(t, filepath.Join(w.state, "gated.yaml"))
	}
	_, err := life.Init(t.Context(), w.options())
	refused(t, err, refusal.Conflict, "is gone, and its log is there")
}

func TestInitWhileADaemonRuns(t *testing.T) {
	w := newServing(t)
	must.Fail(life.Init(t.Context(), w.options()))(t, refusal.Conflict)
	w.status()
}

func read(t *testing.T, path string) string {
	b := must.Get(os.ReadFile(path))(t)
	return string(b)
}

func nameless(pub string) string { return strings.Join(strings.Fields(pub)[:2], " ") }

func hint(err error) string { return "\n" + refusal.As(err).Hint }

func mustRSA(t *testing.T, bits int) *rsa.PrivateKey {
	return must.Get(rsa.GenerateKey(rand.Reader, bits))(t)
}
