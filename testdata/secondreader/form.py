"""Refusals, and the JSON that people sign: docs/formats/payload.md and docs/formats/batch.md."""
import base64, calendar, datetime, hashlib, json, re, unicodedata

BUILT_IN = ("operational", "coordination", "recovery", "breakglass")
ROLE = "[a-z][a-z0-9-]{0,31}"

class Refused(Exception):
    def __init__(self, code, why, stage=None):
        super().__init__(why)
        self.code, self.stage, self.line = code, stage, 0  # the line of a list, from 1

def must(held, why, code="malformed"):
    if not held:
        raise Refused(code, why)

def at(stage, check, *args):
    """Runs one stage. A refusal in it has its name."""
    try:
        return check(*args)
    except Refused as r:
        raise Refused(r.code, str(r), stage)

def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def wire(*parts): return b"".join(len(s).to_bytes(4, "big") + s for s in parts)  # strings of RFC 4251, section 5

def unbase(text):
    """Reads base64 in its one spelling."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    must(base64.b64encode(data) == (text.encode() if isinstance(text, str) else text), "this is no base64, or has another spelling")
    return data

def utf8(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("malformed", "this is no UTF-8")

def plain(text, besides=""):
    """Whether a text has no control, format and line-separator characters."""
    return all(c in besides or unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp") for c in text)

def once(pairs):
    must(len(dict(pairs)) == len(pairs), "a member is there twice")
    return dict(pairs)

def loads(text, **more):
    try:
        return json.loads(text, object_pairs_hook=once, **more)
    except (ValueError, RecursionError):
        raise Refused("malformed", "this is no JSON")

def never(text): raise Refused("malformed", "this is no integer")

def canonical(v):
    if isinstance(v, dict):
        return "{" + ",".join(canonical(k) + ":" + canonical(v[k]) for k in sorted(v, key=lambda k: k.encode("utf-16-be", "surrogatepass"))) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(canonical, v)) + "]"
    return json.dumps(v, ensure_ascii=False)

def canonical_object(data, names):
    must(data, "it is empty")
    v = loads(utf8(data), parse_float=never, parse_constant=never)
    must(isinstance(v, dict) and set(v) == set(names.split()), "it has not exactly the members of its type")
    must(canonical(v).encode("utf-8", "surrogatepass") == data, "it is not in the canonical form")
    return v

def stamp(text):
    must(isinstance(text, str) and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text), "this is no time")
    try:
        return calendar.timegm(datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").timetuple())
    except ValueError:
        raise Refused("malformed", "there is no such time")

def form(v, member, pattern, least=0, most=1 << 16):
    s = v[member]
    must(isinstance(s, str) and plain(s) and re.fullmatch(pattern, s, re.S), "%s has not its form" % member)
    must(least <= len(s.encode("utf-8", "surrogatepass")) <= most, "%s is too short or too long" % member)

def params_of(v, depth=1):
    if isinstance(v, (dict, list)):
        must(depth <= 4, "the parameters are nested too deep")
        for k in v:
            must(isinstance(v, list) or plain(k), "a parameter's name has a control character")
            params_of(v[k] if isinstance(v, dict) else k, depth + 1)
    elif isinstance(v, str):
        must(plain(v), "a parameter has a control character")
    else:
        must(isinstance(v, bool) or isinstance(v, int) and abs(v) < 1 << 53, "a parameter is null or no safe integer")

def signed_common(p):
    form(p, "gate", "[0-9a-f]{32}")
    form(p, "host", ".*", 1, 253)
    form(p, "reason", ".*", 0, 1024)
    form(p, "nonce", "[A-Za-z0-9_-]+")
    nonce = base64.urlsafe_b64decode(p["nonce"] + "=" * (-len(p["nonce"]) % 4)) if len(p["nonce"]) % 4 != 1 else b""
    must(base64.urlsafe_b64encode(nonce).decode().rstrip("=") == p["nonce"] and 16 <= len(nonce) <= 32, "the nonce has not its form")
    must(stamp(p["issued_at"]) < stamp(p["expires_at"]), "it ends before it begins")
    return p

def approval(data):
    p = canonical_object(data, "type gate host op target incarnation state params nonce issued_at expires_at reason")
    form(p, "type", "gated/signed-op/v1")
    form(p, "op", ".*", 3, 64)
    form(p, "target", "[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
    form(p, "incarnation", ".*", 0, 512)
    form(p, "state", "sha256:[0-9a-f]{64}")
    must(isinstance(p["params"], dict), "params is no object")
    params_of(p["params"])
    return signed_common(p)

def rejection(data):
    p = canonical_object(data, "type gate host request payload_sha256 nonce issued_at expires_at reason")
    form(p, "type", "gated/rejection/v1")
    form(p, "request", r"j[1-9][0-9]*\.[1-9][0-9]*")
    form(p, "payload_sha256", "[0-9a-f]{64}")
    return signed_common(p)

def batch(data):
    must(len(data) <= 512, "a batch has at most 512 bytes", "oversized")
    p = canonical_object(data, "type count root role issued_at expires_at")
    form(p, "type", "gated/batch-approval/v1")
    form(p, "root", "[0-9a-f]{64}")
    form(p, "role", ROLE)
    must(p["role"] not in ("recovery", "breakglass"), "this role signs no batch")
    must(type(p["count"]) is int and 1 <= p["count"] <= 1000, "count is out of its range")
    must(stamp(p["issued_at"]) < stamp(p["expires_at"]), "it ends before it begins")
    return p
