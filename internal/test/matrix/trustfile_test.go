package matrix_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// broken is an allowed_signers file that is none, and the line which says so.
type broken struct {
	id, what string
	line     int
	text     func(w *world) string
}

// mallorys is a file of mallory's line, changed.
func mallorys(change func(line string) string) func(w *world) string {
	return func(w *world) string { return change(w.mallory.line(operational)) }
}

func with(options ...string) func(w *world) string {
	return func(w *world) string { return w.mallory.line(operational, options...) }
}

// named is a file in which another principal stands, or another list of options.
func named(principal string) func(w *world) string {
	return mallorys(func(l string) string { return strings.Replace(l, "mallory@example.com", principal, 1) })
}

func optioned(options string) func(w *world) string {
	return mallorys(func(l string) string { return strings.Replace(l, `namespaces="operational@gated"`, options, 1) })
}

// brokenFiles are S15 and S20, and the lines of S09.
var brokenFiles = []broken{
	{"S15a", "a malformed line", 2, func(w *world) string { return w.alice.line(operational) + "mallory@example.com\n" }},
	{"S15b", "an unknown option", 2, func(w *world) string {
		return w.alice.line(operational) + w.mallory.line(operational, "no-touch-required")
	}},
	{"S15c", "no namespaces", 1, func(w *world) string { return w.mallory.name + " " + w.mallory.pub + "\n" }},
	{"S15d", "a doubled option", 1, with(`namespaces="recovery@gated"`)},
	{"S15e", "CR LF", 1, mallorys(func(l string) string { return strings.ReplaceAll(l, "\n", "\r\n") })},
	{"S15f", "a NUL", 1, mallorys(func(l string) string { return "mallory\x00" + l })},
	{"S15g", "a byte-order mark", 1, mallorys(func(l string) string { return "\ufeff" + l })},
	{"S15h", "a time without Z", 1, with(`valid-before="20300101"`)},
	{"S15i", "a cut key", 1, mallorys(func(l string) string { return l[:len(l)-9] + "\n" })},
	{"S15m", "cert-authority with a value", 1, with(`cert-authority="yes"`)},
	{"S15n", "an option in upper case", 1, optioned(`NAMESPACES="operational@gated"`)},
	{"S15o", "a quote that is not closed", 3, func(w *world) string {
		return "# two people\n\n" + strings.Replace(w.mallory.line(operational), `gated" `, "gated ", 1)
	}},
	{"S15p", "a valid-before no later than its valid-after", 1, with(`valid-after="20300101Z"`, `valid-before="20300101Z"`)},
	{"S15q", "a day that there is not", 1, with(`valid-before="20260230Z"`)},
	{"S15r", "an invisible character in a comment", 1, mallorys(func(l string) string { return strings.TrimSuffix(l, "\n") + " \u202eoperator\n" })},
	{"S15s", "the type of another key than it is", 1, mallorys(func(l string) string { return strings.Replace(l, "ssh-ed25519", "ssh-rsa", 1) })},
	{"S15t", "a private key", 1, func(w *world) string { return string(must.Get(os.ReadFile(w.mallory.path))(w.t)) }},
	{"S15u", "a certificate where a key should stand", 1, func(w *world) string {
		return "dora@example.com " + lineOptions(operational) + " " + doraCert(w).Text(w.t) + "\n"
	}},
	{"S20a", "a namespace wildcard", 1, optioned(`namespaces="*@gated"`)},
	{"S20b", "a negated namespace", 1, optioned(`namespaces="!git,operational@gated"`)},
	{"S20c", "a key line with two principals", 1, named("alice@example.com,mallory@example.com")},
	{"S20d", "a pattern as the principal", 1, named("*@example.com")},
	{"S20e", "a pattern in quotes as the principal", 1, named(`"mallory@example.co?"`)},
	{"S20f", "a negated principal", 1, named("!alice@example.com")},
	{"S20g", "no principal, in quotes", 1, named(`""`)},
	{"S20h", "an empty list of namespaces", 1, optioned(`namespaces=""`)},
	{"S20i", "a ? in a namespace", 1, optioned(`namespaces="operational?gated"`)},
	{"S20j", "a CA line that negates everybody", 1, func(w *world) string {
		return theCA(w).Line("!*", "cert-authority,"+lineOptions(operational))
	}},
	{"S09e", "a DSA key", 1, func(w *world) string { return mint.DSA(w.t, "dsa").Line("d@example.com", lineOptions(operational)) }},
	{"S09f", "an RSA key of 2048 bits", 1, func(w *world) string {
		return keyOf(w.t, "rsa2048", "-t", "rsa", "-b", "2048").line(operational)
	}},
}

// check asserts that a refusal says which line it is about, and shows no key.
func (b broken) check(w *world, err error) {
	w.t.Helper()
	require.ErrorIs(w.t, err, refusal.Malformed, b.what)
	require.ErrorContains(w.t, err, fmt.Sprintf("line %d: ", b.line), b.what)
	require.NotContains(w.t, err.Error(), strings.Fields(w.mallory.pub)[1])
}

// trustRows load each file.
func trustRows() []attack {
	var out []attack
	for _, b := range brokenFiles {
		out = append(out, attack{id: b.id, what: "allowed_signers with " + b.what, want: refusal.Malformed, run: func(w *world) error {
			w.armUnlogged("the file is refused before any gate is asked")
			_, err := authz.LoadTrust([]byte(b.text(w)))
			b.check(w, err)
			return err
		}}.on(anyGuests))
	}
	return out
}

// edited is a row in which a hand edits allowed_signers in each of these ways: the
// daemon starts all the same, by the list that the gate decided, and keeps the
// edit aside. Then that is tried.
func edited(id, what string, want refusal.Code, try func(w *world, b broken) error) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		w.armUnlogged("it is refused before any gate is asked")
		w.settle()
		w.shut()
		var last error
		for _, b := range brokenFiles {
			require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "allowed_signers"), []byte(b.text(w)), 0o600))
			last = try(w, b)
		}
		return last
	}}
}

// adopts is root that adopts a file of the state directory.
func adopts(w *world, file string) error {
	_, err := life.AdoptSigners(w.ctx, w.dir, filepath.Join(w.dir, file), func(signers.Adoption) error { return nil })
	return err
}

var trustFileRows = []attack{
	edited("S15j", "the daemon starts over each such file, and root adopts the edit that it kept", refusal.Malformed, func(w *world, b broken) error {
		require.NoError(w.t, servesAt(w))
		require.Equal(w.t, w.trust, string(must.Get(os.ReadFile(filepath.Join(w.dir, "allowed_signers")))(w.t)), b.what)
		err := adopts(w, "allowed_signers.edited")
		b.check(w, err)
		return err
	}),
	edited("S15k", "root adopts each such file", refusal.Malformed, func(w *world, b broken) error {
		err := adopts(w, "allowed_signers")
		b.check(w, err)
		return err
	}),
	{id: "S15l", what: "a rotation adds each such line", want: refusal.BadParams, run: func(w *world) error {
		w.arm()
		var last error
		for _, b := range brokenFiles {
			lines := strings.Split(strings.TrimSuffix(b.text(w), "\n"), "\n")
			_, last = w.submit(hub, w.next(lines[b.line-1:b.line], nil))
			require.Contains(w.t, []refusal.Code{refusal.BadParams, refusal.Malformed}, refusal.CodeOf(last), b.what)
			require.NotContains(w.t, last.Error(), strings.Fields(w.mallory.pub)[1])
		}
		return last
	}},
	{id: "S15v", what: "a sound edit behind the gate's back, the daemon starts, and the signer that it adds approves", want: refusal.UnknownSigner, run: func(w *world) error {
		w.settle()
		w.shut()
		text := w.trust + w.mallory.line(operational)
		require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "allowed_signers"), []byte(text), 0o600))
		require.NoError(w.t, servesAt(w))
		_, disagreed := life.AdoptSigners(w.ctx, w.dir, filepath.Join(w.dir, "allowed_signers.edited"), func(a signers.Adoption) error {
			require.Len(w.t, a.Changes, 1)
			return errors.New("no")
		})
		require.ErrorContains(w.t, disagreed, "no")
		w.open()
		r := w.destroyRequest()
		w.arm()
		return w.approveAs(r, w.mallory, op.Operational)
	}},
}
