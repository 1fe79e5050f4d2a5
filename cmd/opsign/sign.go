package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// offline is what sign is told of the one step that it signs.
type offline struct {
	host, gate, incarnation, state, reason, out string
	expires                                     time.Duration
}

func (t *tool) signCommand() *cobra.Command {
	var k keyFlags
	var o offline
	var given cli.Pairs
	c := t.Command(cli.Words{
		Use:   "sign OP NAME [-p NAME=VALUE]... --host H --gate ID --incarnation I --target-state S -o FILE",
		Short: "Make and sign an approval without a daemon",
		Long: `Writes FILE and FILE.sig. Carry them to a machine where opsign submit FILE --sig FILE.sig reaches the gate.
Host, gate, incarnation and state are what gated status and gated guests NAME print. A target that does not exist yet
has an empty incarnation: --incarnation "". For -p see gated ops.`,
		Example: `  opsign sign guest.destroy web-1 --host pve1 --gate 0123456789abcdef0123456789abcdef \
    --incarnation 6f1c:77:1 --target-state sha256:... -o op.json`,
	}, cobra.ExactArgs(2), func(c *cobra.Command, args []string) error {
		for _, name := range []string{"host", "gate", "incarnation", "target-state", "output"} {
			if !c.Flags().Changed(name) {
				return cli.Usage(missingFlag(name))
			}
		}
		if o.expires < time.Second {
			return cli.Usage("--expires is less than a second")
		}
		keys, err := t.keyring(k)
		if err != nil {
			return err
		}
		return keys.sign(c.Context(), args, given, o)
	})
	c.ValidArgsFunction = completeOpName
	cli.ParamFlag(c, &given, nil)
	t.keyFlags(c, &k)
	c.Flags().StringVar(&o.host, "host", "", "the gate's host `NAME`")
	c.Flags().StringVar(&o.gate, "gate", "", "the gate's `ID`")
	c.Flags().StringVar(&o.incarnation, "incarnation", "", "the target's `INCARNATION`")
	c.Flags().StringVar(&o.state, "target-state", "", "the target's `FINGERPRINT`, sha256:...")
	cli.Renamed(c, "state", "target-state")
	c.Flags().DurationVar(&o.expires, "expires", 15*time.Minute, "how long the approval is valid")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the log")
	c.Flags().StringVarP(&o.out, "output", "o", "", "the `FILE` to write; the signature goes to FILE.sig")
	return c
}

// signedFiles is the answer of sign.
type signedFiles struct {
	Payload     string    `json:"payload"`
	Signature   string    `json:"signature"`
	SHA256      string    `json:"sha256"` // of the payload
	Role        op.Role   `json:"role"`
	Fingerprint string    `json:"fingerprint"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// sign makes a payload and its signature without any gate.
func (r *keyring) sign(ctx context.Context, args []string, given cli.Pairs, o offline) error {
	spec, a, err := ask(args[0], args[1], given)
	if err != nil {
		return err
	}
	role, err := r.flags.roleFor(offlineRoles(spec, op.Role(r.flags.role)))
	if err != nil {
		return err
	}
	now := r.now().UTC().Truncate(time.Second)
	p := op.Payload{Gate: op.GateID(o.gate), Host: o.host, Op: a.Op, Target: a.Target,
		Incarnation: op.Incarnation(o.incarnation), State: op.Fingerprint(o.state), Params: a.Params, Nonce: op.NewNonce(now),
		IssuedAt: now, ExpiresAt: now.Add(o.expires.Truncate(time.Second)), Reason: o.reason}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if err := free(o.out, o.out+".sig"); err != nil { // before a key is touched in vain
		return err
	}
	signer, err := r.key(ctx, use{role: role})
	if err != nil {
		return err
	}
	r.Say("%s", cli.Told(wordsSigned+payloadText(p), r.Stderr))
	armor, err := signer.Sign(ctx, role, b)
	if err != nil {
		return err
	}
	if err := writePair(o.out, b, o.out+".sig", []byte(armor)); err != nil {
		return err
	}
	r.Say("signed as %s with %s, valid until %s\n", role, op.Shown(signer.Fingerprint()), cli.Moment(p.ExpiresAt))
	if r.JSON {
		return r.Emit(signedFiles{Payload: o.out, Signature: o.out + ".sig", SHA256: op.SHA256(b), Role: role,
			Fingerprint: signer.Fingerprint(), ExpiresAt: p.ExpiresAt})
	}
	r.Print("wrote %s and %s.sig\n", op.Shown(o.out), op.Shown(o.out))
	r.Say("to hand it in: opsign submit %s --sig %s.sig\n", op.Shown(o.out), op.Shown(o.out))
	return nil
}

// offlineRoles lists the roles that may sign an operation as far as can be known
// without a gate: those of the catalogue, and one that is not the catalogue's,
// which a gate's own rules may ask for.
func offlineRoles(spec op.Spec, given op.Role) []op.Role {
	if given.Valid() && !given.BuiltIn() {
		return append(slices.Clone(spec.Roles), given)
	}
	return spec.Roles
}

func missingFlag(name string) string { return "--" + name + " is needed" }

// ask reads OP NAME and parameters, and checks them against the catalogue: there
// may be no gate to do so. The name may be written with its kind, as gated
// prints it.
func ask(name, target string, given cli.Pairs) (op.Spec, op.Ask, error) {
	spec, err := op.Lookup(name)
	if err != nil {
		return spec, op.Ask{}, err
	}
	to, err := cli.Target(spec.Kind, target)
	if err != nil {
		return spec, op.Ask{}, err
	}
	p, err := spec.ParseArgs(given)
	if err != nil {
		return spec, op.Ask{}, err
	}
	return spec, op.Ask{Op: name, Target: to, Params: p}, spec.Check(to, p)
}

// free refuses, as a Conflict, paths where something is already.
func free(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return fileThere(path)
		}
	}
	return nil
}

// writePair writes two new files that belong together, readable by their owner
// alone: each appears whole or not at all, and neither is left behind without
// the other. It never writes over a file.
func writePair(path string, content []byte, beside string, more []byte) error {
	first, err := prepare(path, content)
	if err != nil {
		return err
	}
	defer first.discard()
	second, err := prepare(beside, more)
	if err != nil {
		return err
	}
	defer second.discard()
	if err := first.publish(); err != nil {
		return err
	}
	if err := second.publish(); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// draft is a file on its way: written and on disk, under a name of its own.
type draft struct{ temporary, path string }

// prepare writes a draft in the directory where the file will be. A directory
// that cannot be written is a usage error.
func prepare(path string, content []byte) (draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return draft{}, cli.Usage(err.Error())
	}
	d := draft{f.Name(), path}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		d.discard()
		return draft{}, err
	}
	return d, nil
}

// publish gives the draft its name, unless that is taken.
func (d draft) publish() error {
	err := renameNew(d.temporary, d.path)
	if errors.Is(err, fs.ErrExist) {
		return fileThere(d.path)
	}
	return err
}

// discard removes what publish did not move.
func (d draft) discard() { _ = os.Remove(d.temporary) }

func fileThere(path string) error {
	return refusal.New(refusal.Conflict, "%s exists, and nothing is written over it", path).
		WithHint("name a new file with -o, or remove the old one and its .sig")
}

// verified is the answer of verify.
type verified struct {
	Principal   string  `json:"principal"`
	Role        op.Role `json:"role"`
	Fingerprint string  `json:"fingerprint"`
	KeyType     string  `json:"key_type"`
}

func (t *tool) verifyCommand() *cobra.Command {
	var sig, signers string
	c := t.Command(cli.Words{
		Use:   "verify PAYLOAD --sig FILE --allowed-signers FILE",
		Short: "Verify a signature without a daemon",
		Long: "Prints who signed as what, with which key. The key has to be valid now; whether the payload still " +
			"is, a gate says.",
		Example: "  opsign verify op.json --sig op.json.sig --allowed-signers allowed_signers",
	}, cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
		if sig == "" || signers == "" {
			return cli.Usage("both --sig and --allowed-signers are needed")
		}
		payload, err := cli.ReadFile(args[0], op.MaxPayload)
		if err != nil {
			return err
		}
		armor, err := cli.ReadFile(sig, maxSignatureFile)
		if err != nil {
			return err
		}
		listed, err := cli.ReadFile(signers, authz.MaxTrust)
		if err != nil {
			return err
		}
		trust, err := authz.LoadTrust(listed)
		if err != nil {
			return err
		}
		who, err := authz.VerifyFile(payload, string(armor), trust, t.now())
		if err != nil {
			return err
		}
		over := ""
		if _, err := op.DecodeBatch(payload); err == nil {
			over = " of a batch"
		}
		return t.Answer(verified{who.Principal, who.Role, who.Key, who.KeyType}, "good %s signature%s by %s with %s %s\n",
			op.Shown(string(who.Role)), over, cli.Person(who.Principal), op.Shown(who.KeyType), op.Shown(who.Key))
	})
	c.ValidArgsFunction = nil // files
	c.Flags().StringVar(&sig, "sig", "", flagSig)
	c.Flags().StringVar(&signers, "allowed-signers", "", "the allowed_signers `FILE`")
	_ = c.MarkFlagFilename("sig", "sig")      // the flags were
	_ = c.MarkFlagFilename("allowed-signers") // just added
	return c
}

// rotationText says what a rotation's bytes would do to the list of signers: a
// line for each key that comes or goes. Whose a key is that goes, the bytes do
// not say; it is what the gate says in the facts. It is empty of what is no
// rotation.
func rotationText(p op.Payload, facts []op.Fact) string {
	if p.Op != op.Rotate {
		return ""
	}
	text := ""
	for _, line := range p.Params.Lines("add") {
		text += fmt.Sprintf("    adds %s\n", addedKey(line))
	}
	for _, key := range p.Params.Lines("remove") {
		owners := listedAs(key, facts)
		for _, owner := range owners {
			text += fmt.Sprintf("    removes %s\n", cli.Inline(owner))
		}
		if len(owners) == 0 {
			text += fmt.Sprintf("    removes %s (the gate does not say who has it)\n", cli.Inline(key))
		}
	}
	return text + fmt.Sprintf("    makes epoch %d of the list of signers\n", p.Params.Int("epoch"))
}

// addedKey describes a line that is to be added as a gate would read it, and
// shows it whole if it cannot be read.
func addedKey(line string) string {
	trust, err := authz.LoadTrust([]byte(line))
	if err != nil || len(trust.Signers()) != 1 {
		return fmt.Sprintf("a line that cannot be read: %s", cli.Inline(line))
	}
	l := trust.Signers()[0]
	about := []string{"security key"}
	switch {
	case l.CA:
		about[0] = "certificate authority"
	case l.Software:
		about[0] = "software key"
	}
	if !l.ValidAfter.IsZero() {
		about = append(about, fmt.Sprintf("from %s", l.ValidAfter.UTC().Format(time.RFC3339)))
	}
	if !l.ValidBefore.IsZero() {
		about = append(about, fmt.Sprintf("until %s", l.ValidBefore.UTC().Format(time.RFC3339)))
	}
	return fmt.Sprintf("%s (%s)", cli.Inline(strings.TrimSuffix(l.String(), " cert-authority")), strings.Join(about, ", "))
}

// listedAs finds in the facts of a rotation the lines that list a key now:
// whose it is, in which roles, and the key.
func listedAs(key string, facts []op.Fact) (out []string) {
	for _, f := range facts {
		who, rest, ok := strings.Cut(f.Text, " "+key)
		// Nothing of it, or what goes on with a word of its own.
		if whole := rest == "" || strings.HasPrefix(rest, ",") || strings.HasPrefix(rest, " "); f.Name != "key" || !ok ||
			!whole {
			continue
		}
		if line := who + " " + key; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
