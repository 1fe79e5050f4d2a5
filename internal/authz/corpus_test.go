package authz_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gated/internal/test/mint"
)

// The corpus of the differential test: files of allowed signers from a grammar, good
// and odd, and signatures to check with them. A seed determines all of it.

// noon is the instant that most times of the corpus are near.
var noon = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

// subject is a signer: a key, perhaps with a certificate.
type subject struct {
	name string
	key  mint.Key
	cert *mint.Cert
	as   string // the principal of the certificate
	text string // of the certificate
	page bool   // it is a passkey, and a browser says what one should
}

// signature is the way in which a subject signs.
type signature struct {
	subject   *subject
	namespace string
	form      string
}

// attempt is one question to both programs: which principal signed this, at this
// time?
type attempt struct {
	signature
	principal string // the principal for ssh-keygen if gated accepts none
	at        time.Time
}

// document is a generated file and the questions about it.
type document struct {
	text     string
	revoked  string // the revocation file; none if empty
	attempts []attempt
}

type corpus struct {
	subjects []*subject
	plain    []*subject // keys whose signatures OpenSSH accepts
	odd      []*subject // keys that should not be used
	holders  []*subject // of good certificates
	strange  []*subject // of other certificates
	browsers []*subject // passkeys, with good browsers and others
	cas      []mint.Key
	under    map[string][]*subject // a CA's strange certificates and its own key, by its key
}

func newCorpus(t mint.TB) *corpus {
	t.Helper()
	c := &corpus{cas: []mint.Key{mint.Ed25519(t, "ca"), mint.RSA(t, "ca", 3072), mint.ECDSA(t, "ca", 384), mint.SKEd25519(t, "ca", mint.Touched)}}
	said := func(flags byte) mint.Authenticator {
		return mint.Authenticator{Application: mint.Application, Flags: flags, Counter: 1 << 31}
	}
	for _, k := range []mint.Key{
		mint.Ed25519(t, "alice"), mint.ECDSA(t, "bob", 256), mint.ECDSA(t, "carol", 384), mint.ECDSA(t, "dave", 521),
		mint.RSA(t, "erin", 3072), mint.SKEd25519(t, "frank", mint.Touched), mint.SKECDSA(t, "grace", mint.Touched),
		mint.SKEd25519(t, "heidi", said(mint.UserPresent|mint.UserVerified)), mint.SKECDSA(t, "ivan", said(mint.UserPresent|mint.UserVerified|0xc0)),
	} {
		c.plain = append(c.plain, &subject{name: k.Name + " " + k.Type(), key: k})
	}
	for _, k := range []mint.Key{
		mint.RSA(t, "weak", 2048), mint.DSA(t, "old"), mint.SKEd25519(t, "untouched", said(0)), mint.SKECDSA(t, "verified alone", said(mint.UserVerified)),
		mint.SKEd25519(t, "other application", mint.Authenticator{Application: "ssh:elsewhere", Flags: mint.UserPresent}),
		mint.SKECDSA(t, "web", mint.Authenticator{Application: "https://example.com", Flags: mint.UserPresent}),
	} {
		c.odd = append(c.odd, &subject{name: k.Name + " " + k.Type(), key: k})
	}
	c.certificates(t)
	c.passkeys(t)
	c.subjects = slices.Concat(c.plain, c.odd, c.holders, c.strange, c.browsers)
	c.under = map[string][]*subject{}
	for _, s := range c.strange {
		ca := c.authorityOf(s).Text()
		c.under[ca] = append(c.under[ca], s)
	}
	for _, ca := range c.cas {
		c.under[ca.Text()] = append(c.under[ca.Text()], &subject{name: "ca " + ca.Type(), key: ca})
	}
	return c
}

// oddBrowsers are those of badBrowsers that the corpus has.
var oddBrowsers = []string{"made, not used", "another challenge", "another origin inside", "another challenge at the end", "two objects", "in a frame of another site",
	"a top origin", "http", "the parent domain", "another site", "no touch", "copied, and may not be", "extensions without data", "extension data is no map"}

// passkeys makes passkeys whose browsers say what they should, and others: odd browsers, the form of the other kind of key, and
// certificates of passkeys and by one.
func (c *corpus) passkeys(t mint.TB) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(goodBrowsers)) {
		c.browsers = append(c.browsers, &subject{name: "passkey, " + what, key: mint.Passkey(t, "judy", goodBrowsers[what]), page: true})
	}
	for _, b := range badBrowsers {
		if slices.Contains(oddBrowsers, b.name) {
			c.browsers = append(c.browsers, &subject{name: "passkey, " + b.name, key: mint.Passkey(t, "judy", b.browser)})
		}
	}
	key, alice, ca := mint.Passkey(t, "judy", mint.Console), c.plain[0].key, c.cas[0]
	c.browsers = append(c.browsers,
		&subject{name: "passkey, plain form", key: mint.SKECDSA(t, "judy", mint.Authenticator{Application: mint.Console.Party, Flags: mint.UserPresent})},
		&subject{name: "web form", key: mint.Passkey(t, "judy", on(func(b *mint.Browser) { b.Party = mint.Application }))})
	for what, cert := range map[string]mint.Cert{"of a passkey": mint.Certify(ca, key, "judy@example.com"), "by a passkey": mint.Certify(key, alice, "alice@example.com")} {
		c.strange = append(c.strange, &subject{name: what, key: cert.Key, cert: &cert, as: cert.Principals[0], text: cert.Text(t)})
	}
	slices.SortFunc(c.strange, func(a, b *subject) int { return strings.Compare(a.name, b.name) })
}

// certificates makes good certificates for each key by each authority, and others.
func (c *corpus) certificates(t mint.TB) {
	t.Helper()
	add := func(list *[]*subject, what string, key mint.Key, ca mint.Key, change func(*mint.Cert)) {
		as := key.Name + "@example.com"
		cert := mint.Certify(ca, key, as)
		if change != nil {
			change(&cert)
		}
		if len(cert.Principals) > 0 {
			as = cert.Principals[0]
		}
		*list = append(*list, &subject{name: what + " " + cert.Type() + " by " + ca.Type(), key: key, cert: &cert, as: as, text: cert.Text(t)})
	}
	for i, s := range c.plain {
		add(&c.holders, "good", s.key, c.cas[i%len(c.cas)], nil)
		add(&c.strange, "forged", s.key, c.cas[i%len(c.cas)], func(c *mint.Cert) { *c = c.Forged(t) })
		add(&c.strange, "of a host", s.key, c.cas[i%len(c.cas)], func(c *mint.Cert) { c.Kind = mint.HostCert })
	}
	alice, ca := c.plain[0].key, c.cas[0]
	for _, s := range c.plain[:4] {
		add(&c.holders, "for a minute", s.key, ca, func(c *mint.Cert) { c.ValidAfter, c.ValidBefore = noon, noon.Add(time.Minute) })
	}
	add(&c.holders, "with a space", alice, ca, func(c *mint.Cert) { c.Principals = []string{"alice smith"} })
	for what, change := range map[string]func(*mint.Cert){
		"expired":                func(c *mint.Cert) { c.ValidBefore = noon.Add(-time.Hour) },
		"not yet valid":          func(c *mint.Cert) { c.ValidAfter = noon.AddDate(1, 0, 0) },
		"never valid":            func(c *mint.Cert) { c.ValidAfter, c.ValidBefore = noon, noon },
		"of no kind":             func(c *mint.Cert) { c.Kind = 3 },
		"for nobody":             func(c *mint.Cert) { c.Principals = nil },
		"for two":                func(c *mint.Cert) { c.Principals = []string{"alice@example.com", "bob@example.com"} },
		"for one twice":          func(c *mint.Cert) { c.Principals = []string{"alice@example.com", "alice@example.com"} },
		"for an empty principal": func(c *mint.Cert) { c.Principals = []string{""} },
		"for a pattern":          func(c *mint.Cert) { c.Principals = []string{"*"} },
		"for an odd principal":   func(c *mint.Cert) { c.Principals = []string{"alice@example.com\n"} },
		"forced":                 func(c *mint.Cert) { c.Critical = []mint.Option{{Name: "force-command", Value: "/bin/true"}} },
		"from an address":        func(c *mint.Cert) { c.Critical = []mint.Option{{Name: "source-address", Value: "192.0.2.0/24"}} },
		"verify-required":        func(c *mint.Cert) { c.Critical = []mint.Option{{Name: "verify-required"}} },
		"with a riddle":          func(c *mint.Cert) { c.Critical = []mint.Option{{Name: "riddle@example.com", Value: "x"}} },
		"with an extension": func(c *mint.Cert) {
			c.Extensions = append(c.Extensions, mint.Option{Name: "z@example.com", Value: "x"})
		},
		"with reserved bytes": func(c *mint.Cert) { c.Reserved = "r" },
		"forged":              func(c *mint.Cert) { *c = c.Forged(t) },
		"by another":          func(m *mint.Cert) { m.CABlob, m.CA = m.CA.Blob(), c.cas[2] },
		"with more after it":  func(c *mint.Cert) { c.Trailing = []byte{0} },
		"with more inside":    func(c *mint.Cert) { c.InnerRest = []byte{0} },
		"by a certificate":    func(m *mint.Cert) { m.CABlob = mint.Certify(c.cas[2], m.CA, "ca").Blob(t) },
	} {
		add(&c.strange, what, alice, ca, change)
	}
	add(&c.strange, "SHA-1", alice, c.cas[1], func(c *mint.Cert) { c.Algorithm = "ssh-rsa" })
	add(&c.strange, "short signature", alice, c.cas[1], func(c *mint.Cert) { *c = shortSigned(t, *c) })
	add(&c.strange, "SHA-256", alice, c.cas[1], func(c *mint.Cert) { c.Algorithm = "rsa-sha2-256" })
	for _, s := range c.odd {
		add(&c.strange, s.name, s.key, ca, nil)
	}
	add(&c.strange, "untouched", alice, mint.SKEd25519(t, "ca", mint.Authenticator{Application: mint.Application}), nil)
	slices.SortFunc(c.strange, func(a, b *subject) int { return strings.Compare(a.name, b.name) })
}

// shortSigned chooses a serial for which the RSA CA's signature begins with a zero,
// and drops the zero.
func shortSigned(t mint.TB, c mint.Cert) mint.Cert {
	t.Helper()
	for {
		made := c.Parse(t).Signature
		if made.Blob[0] == 0 {
			c.Signature = mint.Strings([]byte(made.Format), made.Blob[1:])
			return c
		}
		c.Serial++
	}
}

// forms are the forms of a signature; the first is ssh-keygen's.
var forms = []string{"as usual", "sha256", "64 wide", "76 wide", "other bytes", "more inside", "more after", "reserved", "hash differs"}

// armored signs payload in the form of s.
func (s signature) armored(t mint.TB, payload []byte) string {
	t.Helper()
	blob := s.subject.key.Blob()
	if s.subject.cert != nil {
		blob = s.subject.cert.Blob(t)
	}
	made := mint.Unsigned(blob, s.namespace)
	switch s.form {
	case "sha256":
		made.Hash = mint.SHA256
	case "reserved":
		made.Reserved = "r"
	case "other bytes":
		payload = append(slices.Clone(payload), '\n')
	}
	made = made.By(t, s.subject.key, payload)
	switch s.form {
	case "64 wide":
		return mint.Armor(made.Blob(), 64)
	case "76 wide":
		return mint.Armor(made.Blob(), 76)
	case "more inside":
		made.Rest = append(slices.Clone(made.Rest), 0)
	case "more after":
		made.Trailing = []byte{0}
	case "hash differs":
		made.Hash = mint.SHA256
	}
	return made.Armored()
}

// dice draws random elements of lists.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 3))} }

func (d dice) one(from ...string) string { return from[d.IntN(len(from))] }

// once is true once in n times.
func (d dice) once(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, from []T) T { return from[d.IntN(len(from))] }

// document generates a file and questions about it.
func (c *corpus) document(seed uint64, attempts int) document {
	d := newDice(seed)
	w := writer{dice: d, corpus: c}
	odd := d.once(2) // only half of the files have an oddity, because few others would load
	for range 1 + d.IntN(4) {
		w.line(odd && d.once(2))
	}
	text := strings.Join(w.lines, "\n") + d.one("\n", "\n", "")
	if odd && d.once(4) {
		text = d.mutate(text)
	}
	doc := document{text: text}
	if d.once(5) {
		doc.revoked = c.revocations(d, w.answers)
	}
	for range attempts {
		line := pick(d, w.answers)
		a := line.attempt
		a.namespace = "operational@gated"
		if d.once(8) {
			a.namespace = d.one("recovery@gated", "git", "manager@gated", "operational@gated ")
		}
		if d.once(12) {
			a.subject = pick(d, c.subjects)
		} else if under := c.under[line.authority]; len(under) > 0 && d.once(3) {
			a.subject = pick(d, under)
		}
		a.form = forms[0]
		if d.once(7) {
			a.form = pick(d, forms)
		}
		a.at = d.moment()
		if len(line.times) > 0 && d.once(2) {
			a.at = pick(d, line.times).Add(time.Duration(d.IntN(3)-1) * time.Second)
		}
		doc.attempts = append(doc.attempts, a)
	}
	return doc
}

// revocations writes a revocation file with a few keys, most of them keys of the
// file's lines.
func (c *corpus) revocations(d dice, answers []answer) string {
	text := d.one("", "# gone\n", "\n")
	for range 1 + d.IntN(2) {
		switch of := pick(d, answers); {
		case d.once(4):
			text += pick(d, c.plain).key.Text()
		case of.authority != "" && d.once(2):
			text += of.authority
		case of.subject.key.Type() == "ssh-dss":
			text += "# of a type that may be unknown"
		default:
			text += of.subject.key.Text()
		}
		text += d.one("", " lost") + "\n"
	}
	return text
}

// moment draws a time near one of the corpus, or noon.
func (d dice) moment() time.Time {
	if !d.once(3) {
		return noon
	}
	near := pick(d, []time.Time{noon, noon.Add(time.Minute), noon.Add(-12 * time.Hour), noon.Add(12 * time.Hour),
		noon.AddDate(1, 0, 0), time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2031, 3, 3, 0, 0, 0, 0, time.UTC),
		time.Date(2038, 1, 19, 3, 14, 7, 0, time.UTC), time.Date(2106, 2, 7, 6, 28, 15, 0, time.UTC)})
	return near.Add(time.Duration(d.IntN(3)-1) * time.Second)
}

// mutate changes bytes of a text at one place.
func (d dice) mutate(text string) string {
	if text == "" {
		return text
	}
	at := d.IntN(len(text))
	if d.once(2) { // near the end of a field, because parsers decide there
		if i := strings.IndexAny(text[at:], " \t\",=\n"); i >= 0 {
			at += i
		}
	}
	special := d.one(" ", "\t", `"`, "'", ",", `\`, "!", "*", "?", "#", "=", "\x00", "\r", "\n", "\v", "\f", "\x7f", "\xff", "\u00a0", "\ufeff", "a", "Z", "/")
	switch d.IntN(5) {
	case 0:
		return text[:at] + text[at+1:]
	case 1:
		return text[:at] + special + text[at:]
	case 2:
		return text[:at] + special + text[at+1:]
	case 3:
		return text[:at] + string(text[at]^byte(1<<d.IntN(8))) + text[at+1:]
	default:
		end := min(len(text), at+1+d.IntN(8))
		return text[:end] + text[at:]
	}
}

// writer writes the lines of one file.
type writer struct {
	dice
	corpus  *corpus
	lines   []string
	answers []answer
}

// answer is a principal that a line may accept, and the times when that changes.
type answer struct {
	attempt
	authority string // the CA's key, of a CA's line
	times     []time.Time
}

// line writes a line. An odd line has one to three unusual parts; OpenSSH accepts
// some of them.
func (w *writer) line(odd bool) {
	oddities := map[string]bool{}
	for range w.IntN(3) + 1 {
		oddities[w.one("key", "key", "comment", "indent", "principal", "principal", "gap", "options", "options", "options", "namespaces",
			"namespaces", "time", "time", "tail", "separator")] = odd
	}
	s := w.subject(oddities["key"])
	listed, authority := s.key.Text(), false
	if s.cert != nil {
		authority = true
		listed = w.corpus.authorityOf(s).Text()
	}
	a := answer{}
	a.subject = s
	if authority {
		a.authority = listed
	}
	if oddities["key"] && w.once(4) {
		listed, authority = w.oddKey(s, listed, authority)
	}
	field, principal := w.principal(authority, s, oddities["principal"])
	gap := func() string {
		if oddities["gap"] {
			return w.one(" ", "\t", "  ", " \t ", "", "\v", "\u00a0")
		}
		return w.one(" ", " ", " ", "\t", "  ")
	}
	options := w.options(authority, oddities)
	text := field + gap() + options + gap() + listed
	switch {
	case oddities["indent"]:
		text = w.one(" ", "\t", " \t ", "\v", "\ufeff") + text
	case oddities["tail"]:
		text += w.one(" ", "\t", "\r", "\x00", " a\x00b", " \u202e", " #", "=", " a \"b", ",")
	case oddities["comment"]:
		text = w.one("", "# "+text, " \t# x", "#", "#"+text, "  ", "\t", ";", "# x\r", "\\") + "\n" + text
	case w.once(3):
		text += w.one(" comment", " two words", "\tæ")
	}
	w.lines = append(w.lines, text)
	a.principal, a.times = principal, timesIn(options)
	if s.cert != nil && !s.cert.ValidBefore.IsZero() {
		a.times = append(a.times, s.cert.ValidBefore)
	}
	w.answers = append(w.answers, a)
}

// timesIn finds the times in options.
func timesIn(options string) []time.Time {
	var out []time.Time
	for _, quoted := range strings.Split(options, `"`) {
		for _, layout := range []string{"20060102Z", "200601021504Z", "20060102150405Z"} {
			if at, err := time.Parse(layout, quoted); err == nil && at.Unix() > 0 {
				out = append(out, at)
			}
		}
	}
	return out
}

func (w *writer) subject(odd bool) *subject {
	switch {
	case odd && w.once(2):
		return pick(w.dice, w.corpus.odd)
	case odd:
		return pick(w.dice, w.corpus.strange)
	case w.once(8):
		return pick(w.dice, w.corpus.browsers)
	case w.once(2):
		return pick(w.dice, w.corpus.holders)
	case w.once(8):
		return pick(w.dice, w.corpus.strange)
	default:
		return pick(w.dice, w.corpus.plain)
	}
}

func (c *corpus) authorityOf(s *subject) mint.Key {
	for _, ca := range c.cas {
		if string(ca.Blob()) == string(s.cert.CA.Blob()) || string(ca.Blob()) == string(s.cert.CABlob) {
			return ca
		}
	}
	return c.cas[0]
}

// oddKey turns an authority into a key or the reverse, lists the certificate itself,
// or spells the key differently.
func (w *writer) oddKey(s *subject, listed string, authority bool) (string, bool) {
	typ, text, _ := strings.Cut(listed, " ")
	switch w.IntN(8) {
	case 0:
		return listed, !authority
	case 6:
		return s.text, w.once(8) // the certificate itself, if there is one
	case 1:
		return s.key.Text(), false
	case 2:
		return w.one("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "rsa-sha2-512", "ssh-ed25519-cert-v01@openssh.com") + " " + text, authority
	case 3:
		return typ + " " + strings.TrimRight(text, "="), authority
	case 4:
		return typ + " " + text[:len(text)/2] + w.one(" ", "\n", "=", "AAAA", "") + text[len(text)/2:], authority
	case 5:
		return strings.ToUpper(typ) + " " + text, authority
	default:
		return w.one(text, typ, "", typ+" "+text+"=", typ+" "+text+"AAAA"), authority
	}
}

// principal writes the first field, and returns the principal that it may name.
func (w *writer) principal(authority bool, s *subject, odd bool) (field, principal string) {
	name := strings.Fields(s.key.Name)[0]
	if authority {
		name = s.as
		if odd {
			return w.one(name+",", ","+name, "!"+name, "!nobody", "*,!"+name, "!"+name+",*", `"`+name+`,"`, "*,,x", `"* "`, "x, "+name, "",
				`""`, "!", "*!", "**", "?", strings.Repeat("?", len(name)), "[a-z]*", `\*`, strings.ToUpper(name), `"*`, `*"`, "!*", "!!"+name), name
		}
		return w.one("*", "*", "*@example.com", `"*"`, `"`+name+`"`, name, "?*", "nobody,*@example.com", "*,!nobody", "!nobody,*",
			`"nobody,alice smith,*@example.com"`, "*@*.com", strings.Replace(name, "a", "?", 1), "*,!alice@*", "!bob@example.com,*@example.com",
			"*,!"+name, "!"+name[:min(2, len(name))]+"*,*", "*@example.com,!?????@*"), name
	}
	if odd {
		return w.one(name+",nobody", "nobody,"+name, "*", name[:1]+"*", name+",!nobody", "!nobody,"+name, "!"+name, `"`+name, name+`"`, `""`, "",
			`"`+name+`"x`, name+`\`, `"a\"b"`, "#"+name, `"#`+name+`"`, name[:2]+`"`+name[2:]+`"`, "?"+name[1:], `'`+name+`'`,
			`"`+name+`"""`, name+"\t", `" `+name+`"`, `"`+name+`,x"`, strings.Repeat(name, 60)), name
	}
	field = w.one(name, name, `"`+name+`"`, name+"@example.com", `"`+name+` smith"`, `" `+name+`"`, `"`+name+` "`, `\`+name, "ø"+name)
	return field, strings.Trim(field, `"`)
}

// options writes the second field.
func (w *writer) options(authority bool, oddities map[string]bool) string {
	namespaces := w.one("operational@gated", "operational@gated", "operational@gated", "git,operational@gated", "operational@gated,recovery@gated,git", "git", "manager@gated,operational@gated")
	if oddities["namespaces"] {
		namespaces = w.one("*", "*@gated", "operational@gate?", "operational@gated,!git", "!git,operational@gated", "!operational@gated,*", "", ",",
			"operational@gated,", ",operational@gated", "operational@gated, git", " operational@gated", "Operational@gated", `operational@gated\"`,
			"git,operational@gated ", "operational@gated,operational@gated", "operational@gated\x00", "@gated", "operational@gated@gated")
	}
	list := []string{`namespaces="` + namespaces + `"`}
	for _, name := range []string{"valid-after", "valid-before"} {
		if w.once(3) || oddities["time"] && w.once(2) {
			list = append(list, name+`="`+w.time(name, oddities["time"])+`"`)
		}
	}
	if authority {
		list = append(list, "cert-authority")
	}
	w.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if oddities["options"] {
		list = w.oddOptions(list)
	}
	separator := ","
	if oddities["separator"] {
		separator = w.one(", ", " ", ",,", ";", " ,", "\t", "")
	}
	return strings.Join(list, separator)
}

// oddOptions changes, adds or removes one option.
func (w *writer) oddOptions(list []string) []string {
	i := w.IntN(len(list))
	name, value, valued := strings.Cut(list[i], "=")
	switch w.IntN(12) {
	case 0:
		return append(list, list[i])
	case 1:
		return slices.Delete(list, i, i+1)
	case 2:
		list[i] = strings.ToUpper(list[i][:1]) + list[i][1:]
	case 3:
		list[i] = strings.ToUpper(name) + list[i][len(name):]
	case 4:
		return append(list, w.one("verify-required", "no-touch-required", `principals="alice"`, "restrict", `x="y"`, "cert-authority", "", "namespaces", `valid-after`))
	case 5:
		list[i] = strings.ReplaceAll(list[i], `"`, w.one("", "'", `""`, `\"`))
	case 6:
		list[i] = strings.TrimSuffix(list[i], `"`)
	case 7:
		list[i] = name + w.one(" =", "= ", ":", "==", "") + value
	case 8:
		list[i] = `"` + list[i] + `"`
	case 9:
		return append(list, w.one(`namespaces="git"`, `valid-before="20990101Z"`, `valid-after="20000101Z"`, `cert-authority="x"`, "cert-authority,cert-authority"))
	case 10:
		if valued {
			list[i] = name + `="` + strings.Trim(value, `"`) + w.one(` "`, `\"`, `\\"`, `"x`, ",\"")
		}
	default:
		return nil
	}
	return list
}

// time writes a time, mostly in the form that gated reads.
func (w *writer) time(name string, odd bool) string {
	if odd {
		return w.one("20310504", "203105041200", "20310504120000", "20310504UTC", "20310504120000UTC", "20310504z", "20310231Z", "20310229Z",
			"20310504240000Z", "20310504120060Z", "2031050412Z", "19700101Z", "19691231Z", "", "Z", "always:forever", "0x7f000000", "+20310504Z",
			"20310504Z ", " 20310504Z", "2031-05-04Z", "20310532Z", "20311301Z", "99999999Z", "21070101Z", "99991231235959Z", "00010101Z", "20380119031408Z")
	}
	if name == "valid-after" {
		return w.one("20310504Z", "203105041200Z", "20310504120000Z", "20310504120001Z", "20310101Z", "20000101Z", "20320101Z")
	}
	return w.one("20310505Z", "203105041201Z", "20310504120000Z", "20310504120001Z", "20320101Z", "20990101Z", "20310303Z")
}

// String shows an attempt in a failure.
func (a attempt) String() string {
	return fmt.Sprintf("%s (%s) for %s at %s", a.subject.name, a.form, a.namespace, a.at.Format(time.RFC3339))
}
