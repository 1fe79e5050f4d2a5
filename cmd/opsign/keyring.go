package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/client"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/sign"
	"gated/internal/wire/cli"
)

// keyring has the keys of one run. Which one signs in a role is found out once, and asked for once.
type keyring struct {
	*tool
	flags  keyFlags
	chosen map[op.Role]sign.Signer
	own    sign.Signer // the key of the flags or of a file, for each role; nil until it is open
}

// keyring checks the flags before anything is shown. If they name no key, the one of the person's client.yaml signs.
func (t *tool) keyring(k keyFlags) (*keyring, error) {
	if err := t.check(k); err != nil {
		return nil, err
	}
	if !k.named() && !k.agent {
		key, file, err := client.Options{Getenv: t.Getenv}.OwnKey()
		if err != nil {
			return nil, err
		}
		if err := t.check(keyFlags{key: key}); err != nil {
			return nil, cli.Usage(fmt.Sprintf("key in %s: %v", op.Shown(file), err))
		}
		k.key = key
	}
	return &keyring{tool: t, flags: k, chosen: map[op.Role]sign.Signer{}}, nil
}

// use is what a key is wanted for. Without gates, nothing says whom they list.
type use struct {
	role  op.Role
	batch bool
	gates []*client.Client
	owed  []string // keys, each with its role, that a rotation adds: their holders sign before a gate lists them
}

func (u use) String() string {
	if u.batch {
		return "batches as " + string(u.role)
	}
	return string(u.role)
}

// ready looks whether there is a key, and whether the gate takes it, before somebody types yes in vain. One that needs a
// passphrase asks for it once it signs. A batch says for each gate by itself what it takes.
func (r *keyring) ready(ctx context.Context, u use) error {
	r.looks = true
	defer func() { r.looks = false }()
	s, err := r.key(ctx, u)
	switch {
	case errors.Is(err, errLocked):
		return nil
	case err != nil || r.unasked || u.batch:
		return err
	case slices.ContainsFunc(u.owed, func(key string) bool { return key == s.Fingerprint()+" "+string(u.role) }):
		return nil
	}
	for _, cl := range u.gates {
		trust, err := trustAt(ctx, cl)
		if err == nil && trust != nil {
			_, err = trust.Accepts(s.PublicKey().Marshal(), u.role, u.batch, r.now())
		}
		if errors.Is(err, refusal.UnknownSigner) || errors.Is(err, refusal.SignerRevoked) {
			r.forget(u.role)
			return err
		}
	}
	return nil
}

// trustTime is how long a gate may take to say whom it lists. Its ssh may have to ask for a touch or a passphrase meanwhile.
const trustTime = 30 * time.Second

// trustAt returns whom a gate lists. It is nil if the gate does not say, as one of an older version, or not soon.
func trustAt(ctx context.Context, cl *client.Client) (*authz.Trust, error) {
	ctx, cancel := context.WithTimeout(ctx, trustTime)
	defer cancel()
	list, err := cl.Trust(ctx)
	if err != nil {
		return nil, nil
	}
	trust, err := authz.LoadTrust([]byte(list.Text))
	if err != nil {
		return nil, err
	}
	revoked, err := authz.LoadRevoked([]byte(strings.Join(list.Revoked, "\n")))
	return trust.WithRevoked(revoked), err
}

// key returns the key that signs.
func (r *keyring) key(ctx context.Context, u use) (sign.Signer, error) {
	if s := r.chosen[u.role]; s != nil {
		return s, nil
	}
	s, err := r.choose(ctx, u)
	if s == nil && err == nil {
		if r.own == nil {
			r.own, err = r.keySigner(ctx, r.flags)
		}
		s = r.own
	}
	if err != nil {
		return nil, err
	}
	r.chosen[u.role] = s
	return s, nil
}

// forget has the next signature in a role look for its key anew: review goes on after a key that did not sign.
func (r *keyring) forget(role op.Role) { delete(r.chosen, role) }

// choose returns the agent's key that signs, if nothing else does: the only one that the gates list, else the one that
// the operator says. It is nil if the flags name a key or the agent has none; then keySigner says what there is.
func (r *keyring) choose(ctx context.Context, u use) (sign.Signer, error) {
	socket := r.Getenv("SSH_AUTH_SOCK")
	if r.flags.named() || socket == "" {
		return nil, nil
	}
	held, err := sign.Identities(ctx, socket)
	held = slices.DeleteFunc(held, func(id sign.Identity) bool { return id.Refused != nil || id.Certificate != nil })
	if err != nil || len(held) == 0 {
		return nil, nil
	}
	id := held[0]
	if len(held) > 1 {
		if id, err = r.one(ctx, held, u); err != nil {
			return nil, err
		}
	}
	return r.announced(sign.Held(socket, id)), nil
}

// one returns the one of several keys that signs.
func (r *keyring) one(ctx context.Context, held []sign.Identity, u use) (sign.Identity, error) {
	about, owners := "the agent holds several keys", map[string]string{}
	fit, err := r.listed(ctx, held, owners, u)
	switch {
	case err != nil:
		return sign.Identity{}, err
	case len(fit) == 0:
		about += ", none of which the gate lists for " + u.String()
	case len(owners) > 0:
		held, about = fit, "the gate lists several of the agent's keys for "+u.String()
	}
	if len(held) == 1 {
		return held[0], nil
	}
	at, err := r.which(about, held, owners)
	return held[at], err
}

// listed returns the keys that all gates list for a use, and adds whose they are by their fingerprint.
func (t *tool) listed(ctx context.Context, held []sign.Identity, owners map[string]string, u use) ([]sign.Identity, error) {
	fit := slices.Clone(held)
	for _, cl := range u.gates {
		trust, err := trustAt(ctx, cl)
		if err != nil {
			return nil, err
		}
		fit = slices.DeleteFunc(fit, func(id sign.Identity) bool {
			if trust == nil {
				return false
			}
			who, err := trust.Accepts(id.Blob, u.role, u.batch, t.now())
			if err == nil {
				owners[id.Fingerprint] = ", as " + cli.Person(who)
			}
			return err != nil
		})
	}
	return fit, nil
}

const wordsWhichKey = "Which one signs? Type its number (an empty line: none): "

const wordsChooseKey = "choose one with --fingerprint SHA256:..., or for good with key: in ~/.config/gated/client.yaml"

// which asks the operator for one of several keys, and refuses where nobody can be asked.
func (t *tool) which(about string, keys []sign.Identity, owners map[string]string) (int, error) {
	text := about + ":\n"
	for i, id := range keys {
		text += fmt.Sprintf("  %d  %s %s%s\n", i+1, id.Fingerprint, cli.Inline(id.Comment), owners[id.Fingerprint])
	}
	nobody := cli.Usage(text + wordsChooseKey)
	if t.unasked || !cli.IsTerminal(t.stdin) {
		return 0, nobody
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return 0, nobody
	}
	defer func() { _ = tty.Close() }() // what was asked was answered
	for {
		forget(tty)
		if _, err := tty.WriteString(cli.Told(text, tty) + wordsWhichKey); err != nil {
			return 0, err
		}
		line, err := readLine(tty)
		answer := strings.TrimSpace(string(line))
		n, bad := strconv.Atoi(answer)
		switch {
		case err != nil || answer == "":
			return 0, notConfirmed()
		case bad == nil && n >= 1 && n <= len(keys):
			return n - 1, nil
		}
	}
}
