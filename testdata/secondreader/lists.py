"""Lists of signers and of revoked keys: docs/formats/allowed-signers.md."""
import calendar, datetime, re
from .form import must, plain, unbase, utf8, Refused, ROLE
from .keys import plain_key, print_of, Cert, Reader, CERTIFIED

def lines_of(data, read):
    """Reads each line. A refusal names its number."""
    must(len(data) <= 1 << 20, "the file is too long")
    out = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            text = utf8(line)
            must(plain(text, "\t"), "the line has a control character")
            text = text.strip(" \t")
            if text and text[0] != "#":
                out.append((number, read(text)))
        except Refused as r:
            r.code, r.line = "malformed", number
            raise
    return out

def limit(text):
    m = re.fullmatch("([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2})?)?Z", text)
    must(m, "this is no time")
    try:
        at = calendar.timegm(datetime.datetime(*(int(g or 0) for g in m.groups())).timetuple())
    except ValueError:
        raise Refused("malformed", "there is no such time")
    must(at > 0, "the time is not after 1970-01-01")
    return at

def listed_key(text):
    m = re.fullmatch(r"([^ \t]+)[ \t]+([A-Za-z0-9+/=]+)([ \t].*)?", text)
    must(m, "there is no key")
    k = plain_key(unbase(m[2]))
    must(k.kind == m[1], "the key is of another type")
    return k

class Line:
    def __init__(self, text):
        m = re.fullmatch(r'("[^"]*"|[^# \t"][^ \t"]*)[ \t]+((?:[^ \t"]|"[^"]*")+)[ \t]+(.*)', text)
        must(m, "the line has not its fields")
        self.name = m[1][1:-1] if m[1][0] == '"' else m[1]
        found = re.findall(r'(cert-authority)|(namespaces|valid-after|valid-before)="([^"]*)"', m[2])
        must(",".join(a or '%s="%s"' % (b, c) for a, b, c in found) == m[2], "an option is unknown, or has not its form")
        opts = {a or b: c for a, b, c in found}
        must(len(opts) == len(found) and "namespaces" in opts, "an option is twice, or there are no namespaces")
        self.ca, self.namespaces = "cert-authority" in opts, opts["namespaces"].split(",")
        must(all(re.fullmatch(r'[^ \t,*?!"\\]+', n) and len(n.encode()) <= 255 for n in self.namespaces), "a namespace has not its form")
        self.after, self.before = (limit(opts[o]) if o in opts else None for o in ("valid-after", "valid-before"))
        must(None in (self.after, self.before) or self.after < self.before, "it ends before it begins")
        self.key = listed_key(m[3])
        if self.ca:
            self.patterns = [(p[:1] == "!", p.lstrip("!") if p[:2] != "!!" else "") for p in self.name.split(",")]
            must(all(p and "!" not in p and len(p.encode()) <= 255 for _, p in self.patterns), "a pattern has not its form")
            must(not all(negated for negated, _ in self.patterns), "all patterns are negated")
            must(len(self.name.encode()) <= 4096 and not self.key.passkey, "the patterns are too long, or a passkey certifies")
        else:
            must(is_principal(self.name.encode()), "the principal has not its form")

    def matches(self, name):
        hits = [negated for negated, p in self.patterns
                if re.fullmatch(b"".join({b"*": b".*", b"?": b"."}.get(c, re.escape(c)) for c in (p.encode()[i:i + 1] for i in range(len(p.encode())))), name, re.S)]
        return bool(hits) and True not in hits

    def open(self, at): return (self.after is None or self.after <= at) and (self.before is None or at <= self.before)

    def show(self, number):
        roles = {use: sorted(n[:-len(use)] for n in self.namespaces if re.fullmatch(ROLE + use, n)) for use in ("@gated", "@batch.gated")}
        batches = [r for r in roles["@batch.gated"] if r in roles["@gated"] and r not in ("recovery", "breakglass")]
        times = {k: time_text(v) for k, v in (("valid_after", self.after), ("valid_before", self.before)) if v is not None}
        return dict(times, line=number, principal=self.name, ca=self.ca, key=self.key.print, key_type=self.key.kind, roles=sorted(set(roles["@gated"])), batches=batches)

def time_text(at): return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

def is_principal(name, besides="\t"):
    """Whether a key line could name this person. A certificate's principal has no TAB besides."""
    text = name.decode("utf-8", "replace")
    return 1 <= len(name) <= 255 and "\ufffd" not in text and plain(text, besides) and not re.search('[,*?!"]', text)

def signers(data): return lines_of(data, Line)

def revoked_key(text):
    if re.fullmatch("SHA256:[A-Za-z0-9+/]{43}", text):
        return text
    m = re.fullmatch(r"([^ \t]+)[ \t]+([A-Za-z0-9+/=]+)([ \t].*)?", text)
    must(m, "it is neither a key nor a fingerprint")
    blob = unbase(m[2])
    r = Reader(blob)
    must(r.string() == m[1].encode(), "the key is of another type")
    if m[1] in CERTIFIED:
        return Cert(m[1], r).key.print
    return print_of(blob) if m[1] == "ssh-dss" else plain_key(blob, weak=True).print

def revoked(data): return sorted({k for _, k in lines_of(data, revoked_key)})
