"""Keys, certificates and signatures, byte for byte: docs/formats/signatures.md."""
import base64, hashlib, re, subprocess, tempfile
from .form import loads, must, never, once, plain, sha, unbase, utf8, wire

class Reader:
    def __init__(self, data): self.data, self.i = data, 0

    def take(self, n):
        self.i += n
        must(self.i <= len(self.data), "something is cut off")
        return self.data[self.i - n:self.i]

    def number(self, n=4): return int.from_bytes(self.take(n), "big")
    def string(self): return self.take(self.number())

    def mpint(self):
        s = self.string()
        must(s and s[0] < 128 and (s[0] or len(s) > 1 and s[1] > 127), "a number is not positive, or not in its shortest form")
        return int.from_bytes(s, "big")

    def end(self): must(self.i == len(self.data), "something follows")

SK_ED, SK_EC, WEBAUTHN = "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com", "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
CURVES = {"nistp256": (2**256 - 2**224 + 2**192 + 2**96 - 1, 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b),
          "nistp384": (2**384 - 2**128 - 2**96 + 2**32 - 1,
                       0xb3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef),
          "nistp521": (2**521 - 1, 0x51953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00)}
KEY_TYPES = ["ssh-ed25519", "ssh-rsa", SK_ED, SK_EC] + ["ecdsa-sha2-" + c for c in CURVES]
CERTIFIED = {re.sub("(@openssh.com)?$", "-cert-v01@openssh.com", k, count=1): k for k in KEY_TYPES}
LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"

def is_host(name):
    """Whether a passkey can be of this relying party. An address is none."""
    return name == "localhost" or len(name) <= 253 and re.fullmatch(r"%s(\.%s)+" % (LABEL, LABEL), name) and not re.search(r"\.([0-9]+|0x[0-9a-f]*)$", name)

def print_of(blob): return "SHA256:" + base64.b64encode(sha(blob)).decode().rstrip("=")

class Key:
    """A public key. parts reads its fields after the type."""
    def __init__(self, kind, r, weak=False):
        self.kind, self.passkey, begin = kind, False, r.i
        if kind in ("ssh-ed25519", SK_ED):
            must(len(r.string()) == 32, "an Ed25519 key has 32 bytes")
        elif kind == "ssh-rsa":
            e, self.n = r.mpint(), r.mpint()
            must(weak or self.n.bit_length() >= 3072, "the RSA key is too short", "weak_key")
            must(self.n.bit_length() <= 16384 and e % 2 and 3 <= e < 1 << 24, "the RSA key's numbers are out of their range")
        else:
            curve, point = r.string().decode("ascii", "replace"), r.string()
            must(curve == kind.split("@")[0][-8:], "the curve is not that of the type")
            (p, b), n = CURVES[curve], len(point) // 2
            x, y = int.from_bytes(point[1:n + 1], "big"), int.from_bytes(point[n + 1:], "big")
            must(point[:1] == b"\4" and len(point) == 1 + 2 * ((p.bit_length() + 7) // 8), "the point is not uncompressed")
            must(max(x, y) < p and (y * y - x * x * x + 3 * x - b) % p == 0, "the point is not on its curve")
        if kind in (SK_ED, SK_EC):
            app = r.string()
            self.passkey = kind == SK_EC and bool(is_host(app.decode("latin-1")))
            must(app.startswith(b"ssh:") and plain(utf8(app)) or self.passkey, "the application is neither of OpenSSH nor a host name")
            self.app = app.decode("latin-1")
        self.blob = wire(kind.encode()) + r.data[begin:r.i]
        self.print = print_of(self.blob)

def plain_key(blob, weak=False):
    r = Reader(blob)
    kind = r.string().decode("latin-1")
    must(kind != "ssh-dss", "DSA is too weak", "weak_key")
    must(kind in KEY_TYPES, "no line can list a key of this type", "unknown_signer")
    k = Key(kind, r, weak)
    r.end()
    return k

class Inner:
    """The signature proper, by a key."""
    def __init__(self, key, data):
        r = Reader(data)
        self.format, value, v = r.string().decode("latin-1"), r.string(), None
        must(self.format != "ssh-rsa", "RSA with SHA-1 is too weak", "weak_key")
        must(self.format in (("rsa-sha2-512", "rsa-sha2-256") if key.kind == "ssh-rsa" else (WEBAUTHN,) if key.passkey else (key.kind,)),
             "the signature is not in the form of its key")
        if key.kind == "ssh-rsa":
            must(len(value) == (key.n.bit_length() + 7) // 8, "the signature is not as long as the modulus")
        elif "ed25519" in key.kind:
            must(len(value) == 64, "an Ed25519 signature has 64 bytes")
        else:
            v = Reader(value)
            v.mpint(), v.mpint(), v.end()
        self.flags = self.counter = self.origin = None
        if key.kind in (SK_ED, SK_EC):
            self.flags, self.counter = r.number(1), r.number()
        if key.passkey:
            self.origin, self.client, self.more = r.string(), r.string(), r.string()
            must(len(self.client) <= 4096 and len(self.more) <= 1024, "the client or extension data is too long")
            must(not self.flags & ~0x9d and (self.flags & 0x18) != 0x10, "a flag is set that no assertion has")
            must(bool(self.more) == bool(self.flags & 0x80), "there is extension data without its flag, or the flag alone")
            if self.more:
                m = Reader(self.more)
                must(self.more[0] >> 5 == 5, "the extension data is no map")
                cbor(m, 1)
                m.end()
        r.end()

def cbor(r, depth):
    """Skips one item of CBOR (RFC 8949)."""
    head = r.number(1)
    major, n = head >> 5, head & 31
    must(n < 28 and major != 6, "a length is not written out, or a tag is there")
    value = n if n < 24 else r.number(1 << (n - 24))
    must(major != 7 or n != 24 or value >= 32, "a simple value has two bytes in the place of one")
    if major in (2, 3):
        r.take(value)
    elif major in (4, 5):
        must(depth <= 4, "it is nested too deep")
        for _ in range(min(value * (major - 3), len(r.data) + 1)):
            cbor(r, depth + 1)

def options(data):
    r, found, last = Reader(data), {}, None
    while r.i < len(data):
        name, value = r.string(), r.string()
        must(last is None or last < name, "options are twice, or out of their order")
        found[name], last = value, name
    return found

class Cert:
    def __init__(self, kind, r):
        must(len(r.string()) >= 16, "the nonce is too short")
        self.key = Key(CERTIFIED[kind], r)
        must(not self.key.passkey, "a passkey has no certificate")
        self.serial, self.type, key_id = r.number(8), r.number(), utf8(r.string())
        must(self.type in (1, 2), "it is neither for users nor for hosts")
        must(plain(key_id), "the key id has a control character")
        names, self.principals = Reader(r.string()), []
        while names.i < len(names.data):
            self.principals.append(names.string())
        self.after, self.before = r.number(8), r.number(8)
        self.critical, _ = options(r.string()), options(r.string())
        must(r.string() == b"", "the reserved field is not empty")
        ca = r.string()
        must(Reader(ca).string().decode("latin-1") not in CERTIFIED, "the authority is a certificate")
        self.ca = plain_key(ca)
        must(not self.ca.passkey, "a passkey certifies no key")
        self.inner = Inner(self.ca, r.string())

class Signature:
    def __init__(self, armor):
        must(len(armor.encode("utf-8", "surrogatepass")) <= 16384, "a signature has at most 16 KiB", "oversized")
        m = re.fullmatch(r"-----BEGIN SSH SIGNATURE-----\n((?:[A-Za-z0-9+/=]+\n)+)-----END SSH SIGNATURE-----\n?", armor)
        must(m, "the armor has not its form")
        lines = m[1].split("\n")[:-1]
        must(len(lines[0]) <= 76 and all(len(l) == len(lines[0]) for l in lines[:-1]) and len(lines[-1]) <= len(lines[0]), "its lines have several lengths")
        self.armor, r = armor, Reader(unbase("".join(lines)))
        must(r.take(6) == b"SSHSIG" and r.number() == 1, "this is no SSHSIG of version 1")
        blob, self.namespace = r.string(), r.string()
        must(r.string() == b"", "the reserved field is not empty")
        self.hash = r.string()
        must(self.hash in (b"sha512", b"sha256"), "the hash is none of SSHSIG's")
        inner = r.string()
        r.end()
        k = Reader(blob)
        kind, self.cert, self.key = k.string().decode("latin-1"), None, None
        if kind in CERTIFIED:
            self.cert = Cert(kind, k)
            self.key = self.cert.key
            k.end()
        elif kind in KEY_TYPES or kind == "ssh-dss":
            self.key = plain_key(blob)
        self.inner = self.key and Inner(self.key, inner)

    def check(self, message):
        """The crypto stage. ssh-keygen does the mathematics, also of the authority's signature."""
        with tempfile.NamedTemporaryFile() as f:
            f.write(self.armor.encode())
            f.flush()
            call = ["ssh-keygen", "-Y", "check-novalidate", "-n", self.namespace.decode(), "-s", f.name]
            must(subprocess.run(call, input=message, capture_output=True).returncode == 0, "ssh-keygen refuses the signature", "bad_signature")
        if self.key.passkey:
            self.page(message)
        must(self.inner.flags is None or self.inner.flags & 1, "nobody touched the security key", "touch_required")
        if self.cert:
            must(self.cert.inner.flags is None or self.cert.inner.flags & 1, "nobody touched the authority's security key", "touch_required")
            must(b"verify-required" not in self.cert.critical or (self.inner.flags or 0) & 4, "the certificate asks for a verification", "touch_required")

    def allowed(self, gate):
        """The last part of the crypto stage: whether this gate takes signatures of this page and of such a passkey."""
        if self.key.passkey:
            must(self.inner.origin.decode() in gate.get("origins", []), "the page is none of the gate's", "origin_mismatch")
            must(not self.inner.flags & 8 or gate.get("synced"), "a vault may copy this key", "weak_key")

    def page(self, message):
        i, blob = self.inner, b"SSHSIG" + wire(self.namespace, b"", self.hash, hashlib.new(self.hash.decode(), message).digest())
        begin = b'{"type":"webauthn.get","challenge":"%s","origin":"%s"' % (base64.urlsafe_b64encode(blob).rstrip(b"="), i.origin)
        must(i.client.startswith(begin) and i.client[len(begin):len(begin) + 1] in (b",", b"}"), "the client data begins otherwise", "bad_signature")
        said = client_data(utf8(i.client))
        m = re.fullmatch(r"(https?)://([a-z0-9.-]+)(?::([1-9][0-9]{0,4}))?", i.origin.decode("latin-1"))
        must(m and len(i.origin) <= 300 and is_host(m[2]) and (m[1] == "https" or m[2] == "localhost") and int(m[3] or 0) <= 65535 and (m[1], m[3]) not in (("https", "443"), ("http", "80")),
             "a browser writes no such origin", "origin_mismatch")
        host = m[2]
        must((host == self.key.app or host.endswith("." + self.key.app)), "the page is not the key's", "origin_mismatch")
        must(said.get("crossOrigin", False) is False and "topOrigin" not in said, "the page was in a frame of another site", "origin_mismatch")

KNOWN = ("type", "challenge", "origin", "crossOrigin", "topOrigin")

def fold(name): return "".join(c.casefold() if len(c.casefold()) == 1 else c for c in name if c not in "_-")

def client_data(text):
    """Reads client data. A known name in other letters is the same name, also with _ and -."""
    known = {fold(n): n for n in KNOWN}
    said = loads(text, parse_constant=never)
    must(isinstance(said, dict), "the client data is no object")
    return once([(known.get(fold(k), k), v) for k, v in said.items()])
