package matrix_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// theCA is the CA that caLine lists, and that no person holds.
func theCA(w *world) mint.Key { return mint.Ed25519(w.t, "ca") }

// caLine has the CA certify operators of one domain, but for one of them.
func caLine(w *world) string {
	return theCA(w).Line("*@example.com,!eve@example.com", "cert-authority,"+lineOptions(operational))
}

// doraCert is a good certificate.
func doraCert(w *world) mint.Cert {
	return mint.Certify(theCA(w), mint.Ed25519(w.t, "dora"), "dora@example.com")
}

// certificate is a row in which the good certificate has one thing changed, and
// is signed by the CA as it is then.
func certificate(id, what string, want refusal.Code, change func(w *world, c *mint.Cert)) attack {
	return listed(id, "a certificate "+what, want, caLine, func(w *world) vote {
		c := doraCert(w)
		change(w, &c)
		return certified(c)
	})
}

// recertified signs with a certificate that was changed after the CA signed it.
func recertified(change func(c *mint.Cert)) func(w *world, c *mint.Cert) {
	return func(w *world, c *mint.Cert) {
		good := c.Parse(w.t).Signature
		c.Signature = append(mint.String(good.Format), mint.String(good.Blob)...)
		change(c)
	}
}

// certificateRows are S10 and S11.
var certificateRows = []attack{
	listedAlone("S10a", "a CA signs a certificate with RSA and SHA-1", refusal.WeakKey,
		func(w *world) string { return rsaKey(w).Line("*", "cert-authority,"+lineOptions(operational)) },
		func(w *world) vote {
			c := mint.Certify(rsaKey(w), mint.Ed25519(w.t, "dora"), "dora@example.com")
			c.Algorithm = "ssh-rsa"
			return certified(c)
		}),
	listed("S10b", "a certified RSA key signs with SHA-1", refusal.WeakKey, caLine, func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			c := mint.Certify(theCA(w), rsaKey(w), "dora@example.com")
			return mint.Unsigned(c.Blob(t), operational).As(t, rsaKey(w), "ssh-rsa", payload).Armored()
		}
	}),
	certificate("S10c", "whose CA's signature has one bit turned", refusal.BadSignature, func(w *world, c *mint.Cert) { *c = c.Forged(w.t) }),
	certificate("S10d", "that names the CA and is signed by another key", refusal.BadSignature, func(w *world, c *mint.Cert) {
		c.CABlob, c.CA = theCA(w).Blob(), mint.Ed25519(w.t, "mallory")
	}),
	certificate("S10e", "whose principal was changed after the CA signed", refusal.BadSignature,
		recertified(func(c *mint.Cert) { c.Principals = []string{"alice@example.com"} })),
	certificate("S10f", "whose end was changed after the CA signed", refusal.BadSignature,
		recertified(func(c *mint.Cert) { c.ValidBefore = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) })),
	certificate("S10g", "signed by the certified key itself", refusal.UnknownSigner, func(w *world, c *mint.Cert) { c.CA = c.Key }),
	certificate("S10h", "by a CA with a short RSA key", refusal.WeakKey, func(w *world, c *mint.Cert) { c.CA = mint.RSA(w.t, "short", 1024) }),
	certificate("S10i", "by a CA with a DSA key", refusal.WeakKey, func(w *world, c *mint.Cert) { c.CA = mint.DSA(w.t, "dsa") }),
	listed("S10j", "a certificate of another key than signed", refusal.BadSignature, caLine, func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			return mint.SignWith(t, doraCert(w), mint.Ed25519(w.t, "mallory"), operational, payload).Armored()
		}
	}),
	listed("S10k", "the CA's own key signs", refusal.UnknownSigner, caLine, func(w *world) vote { return minted(theCA(w)) }),
	listedAlone("S10l", "a listed key certifies, which is no CA", refusal.UnknownSigner,
		func(w *world) string { return theCA(w).Line("boss@example.com", lineOptions(operational)) },
		func(w *world) vote { return certified(doraCert(w)) }),
	certificate("S10m", "with bytes after the CA's signature", refusal.Malformed, func(_ *world, c *mint.Cert) { c.InnerRest = []byte{0} }),
	certificate("S10n", "with bytes after its end", refusal.Malformed, func(_ *world, c *mint.Cert) { c.Trailing = []byte{0} }),
	certificate("S10o", "with something in its reserved field", refusal.Malformed, func(_ *world, c *mint.Cert) { c.Reserved = "x" }),
	certificate("S11a", "that has expired", refusal.SignerExpired, func(w *world, c *mint.Cert) { c.ValidBefore = w.now().Add(-time.Hour) }),
	certificate("S11b", "that expires this second, which is excluded", refusal.SignerExpired, func(w *world, c *mint.Cert) { c.ValidBefore = w.now() }),
	certificate("S11c", "that is valid from the next second", refusal.SignerExpired,
		func(w *world, c *mint.Cert) { c.ValidAfter = w.now().Add(time.Second) }),
	certificate("S11d", "that ends before it begins", refusal.SignerExpired, func(w *world, c *mint.Cert) {
		c.ValidAfter, c.ValidBefore = w.now().Add(-time.Hour), w.now().Add(-2*time.Hour)
	}),
	certificate("S11e", "for hosts", refusal.UnknownSigner, func(_ *world, c *mint.Cert) { c.Kind = mint.HostCert }),
	certificate("S11f", "of a type that there is not", refusal.Malformed, func(_ *world, c *mint.Cert) { c.Kind = 3 }),
	certificate("S11g", "without principals, which OpenSSH takes for anybody", refusal.UnknownSigner, func(_ *world, c *mint.Cert) { c.Principals = nil }),
	certificate("S11h", "with an empty principal", refusal.UnknownSigner, func(_ *world, c *mint.Cert) { c.Principals = []string{""} }),
	certificate("S11i", "for a principal that the line's pattern does not match", refusal.UnknownSigner,
		func(_ *world, c *mint.Cert) { c.Principals = []string{"dora@example.org"} }),
	certificate("S11j", "for the principal that the line negates", refusal.UnknownSigner,
		func(_ *world, c *mint.Cert) { c.Principals = []string{"eve@example.com"} }),
	certificate("S11k", "whose principal is a pattern itself", refusal.UnknownSigner, func(_ *world, c *mint.Cert) { c.Principals = []string{"*@example.com"} }),
	certificate("S11l", "with a critical option that is not known", refusal.UnknownSigner,
		func(_ *world, c *mint.Cert) { c.Critical = []mint.Option{{Name: "two-person@example.com"}} }),
	certificate("S11m", "with a forced command", refusal.UnknownSigner,
		func(_ *world, c *mint.Cert) { c.Critical = []mint.Option{{Name: "force-command", Value: "/bin/true"}} }),
	certificate("S11n", "for one address", refusal.UnknownSigner,
		func(_ *world, c *mint.Cert) { c.Critical = []mint.Option{{Name: "source-address", Value: "192.0.2.1"}} }),
	certificate("S11o", "with its critical options in the wrong order", refusal.Malformed, func(_ *world, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "verify-required"}, {Name: "force-command", Value: "/bin/true"}}
	}),
	listed("S11p", "a good certificate signs in a role that its CA is not listed for", refusal.UnknownSigner, caLine, func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			return mint.SignWith(t, doraCert(w), doraCert(w).Key, "recovery@gated", payload).Armored()
		}
	}),
	listedAlone("S11q", "a good certificate after its CA's line has ended", refusal.SignerExpired, func(w *world) string {
		return theCA(w).Line("*", "cert-authority,"+lineOptions(operational, `valid-before="20260228Z"`))
	}, func(w *world) vote { return certified(doraCert(w)) }),
	{id: "S11r", what: "a certificate ends between the approval and the execution", want: refusal.SignerExpired, run: func(w *world) error {
		w.list(caLine(w))
		c := doraCert(w)
		c.ValidAfter, c.ValidBefore = w.now(), w.now().Add(10*time.Second) // its first second counts
		r := w.destroyRequest()
		require.Equal(w.t, op.StateAuthorized, w.mustSign(r, certified(c)).Step.State)
		w.pass(10 * time.Second)
		w.arm()
		err := w.executor().execute(w.ctx, r.ID)
		require.Equal(w.t, op.StateRefused, w.stepOf(r.ID).State)
		return err
	}},
}
