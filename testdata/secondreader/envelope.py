"""Verifies an envelope, stage by stage: docs/formats/signatures.md, docs/formats/batch.md."""
import re
from .form import at, must, approval, batch, rejection, sha, stamp, unbase, Refused, BUILT_IN
from .keys import Signature
from .lists import is_principal, revoked, signers, Line
from .trees import included

SKEW = 60

class Gate:
    """What a gate knows: its list of signers, its revoked keys, its settings."""
    def __init__(self, g):
        self.settings, self.lines = g, [l for _, l in signers(g["allowed_signers"].encode())]
        self.revoked = g.get("revoked", "")
        try:
            self.revoked = revoked(self.revoked.encode())
        except Refused:
            self.revoked = None

    def listed(self, s, namespaces, at):
        """The allow-list stage: who signed."""
        must(self.revoked is not None, "the revoked keys cannot be read", "unavailable")
        must(s.key, "no line can list a key of this type", "unknown_signer")
        must(not {s.key.print, s.cert and s.cert.ca.print} & set(self.revoked), "the key is revoked", "signer_revoked")
        if s.cert:
            c = s.cert
            must(c.type == 1 and len(c.principals) == 1 and is_principal(c.principals[0], ""), "the certificate names no one user", "unknown_signer")
            must(all(o == b"verify-required" and v == b"" for o, v in c.critical.items()), "the certificate has another critical option", "unknown_signer")
        signer = s.cert.ca if s.cert else s.key
        lines = [l for l in self.lines if l.ca == bool(s.cert) and l.key.blob == signer.blob and set(namespaces) <= set(l.namespaces)
                 and (not s.cert or l.matches(s.cert.principals[0]))]
        must(lines, "no line lists the key", "unknown_signer")
        lines = [l for l in lines if l.open(at)]
        must(lines and (not s.cert or s.cert.after <= at < s.cert.before), "the key is not listed at this time", "signer_expired")
        return s.cert.principals[0].decode() if s.cert else lines[0].name

    def proves(self, s, namespace, payload):
        """Whether a signature that no line accepts shows that its holder has a key which this rotation adds."""
        if payload.get("op") != "trust.rotate" or s.cert or not s.key:
            return None
        for text in payload["params"].get("add", []):
            l = Line(text)
            if l.key.blob == s.key.blob and namespace in l.namespaces:
                return l.name
        return None

def in_time(p, at, longest):
    begin, end = stamp(p["issued_at"]), stamp(p["expires_at"])
    must(end - begin <= longest, "it is valid for too long", "validity_too_long")
    must(begin - SKEW <= at, "it is not valid yet", "not_yet_valid")
    must(at <= end + SKEW, "it has expired", "expired")

def opened(env, rejects):
    """The decode stage: the payload, what was signed, the batch and the signatures."""
    must(isinstance(env.get("signatures"), list) and env["signatures"] and set(env) <= {"payload", "signatures", "batch"}, "the envelope has not its form")
    must(len(env["signatures"]) <= 16, "an envelope has at most 16 signatures", "oversized")
    message, b = unbase(env["payload"]), None
    must(len(message) <= 65536, "a payload has at most 64 KiB", "oversized")
    payload, signed = (rejection if rejects else approval)(message), message
    if "batch" in env:
        must(not rejects, "a rejection is signed alone")
        signed = unbase(env["batch"]["payload"])
        b, path = batch(signed), env["batch"]["path"]
        must(0 <= env["batch"]["index"] < b["count"], "the index is not below the count")
        must(len(path) <= 10, "a path has at most 10 hashes", "oversized")
        must(all(re.fullmatch("[0-9a-f]{64}", h) for h in path), "a hash has not its form")
    return payload, message, signed, b, [Signature(s) for s in env["signatures"]]

def verify(case):
    gate, now, env = Gate(case["gate"]), stamp(case["now"]), case["envelope"]
    g = gate.settings
    payload, message, signed, b, sigs = at("decode", opened, env, case.get("as") == "rejection")
    use = "@batch.gated" if b else "@gated"

    def role(s):
        name = s.namespace.decode("latin-1")
        r = name[:-len(use)]
        must(name.endswith(use) and r in BUILT_IN + tuple(g.get("roles", [])) and (not b or b["role"] == r), "the namespace is none of this gate's", "namespace_mismatch")
        return r
    roles = [at("namespace", role, s) for s in sigs]
    out = {"signers": [], "proofs": []}

    def listed(s, r):
        names = [r + "@gated"] + ([r + use] if b else [])
        try:
            return "signers", gate.listed(s, names, now)
        except Refused as no:
            name = no.code in ("unknown_signer", "signer_expired") and not b and gate.proves(s, names[0], payload)
            if not name:
                raise
            return "proofs", name
    for s, r in zip(sigs, roles):
        kind, name = at("allow-list", listed, s, r)
        who = {"principal": name, "role": r, "key": s.key.print}
        if s.cert:
            who.update(ca=s.cert.ca.print, serial=s.cert.serial)
        if s.inner.flags is not None:
            who.update(flags=s.inner.flags, counter=s.inner.counter)
        if s.inner.origin is not None:
            who.update(origin=s.inner.origin.decode())
        out[kind].append(who)
    for s in sigs:
        at("crypto", s.check, signed)
    for s in sigs:
        at("crypto", s.allowed, g)
    if b:
        path = [bytes.fromhex(h) for h in env["batch"]["path"]]
        at("inclusion", included, sha(b"\0", sha(message)), env["batch"]["index"], b["count"], path, bytes.fromhex(b["root"]))
    at("target", lambda: must((payload["host"], payload["gate"]) == (g["host"], g["id"]), "it is for another gate", "target_mismatch"))
    if b:
        at("time", in_time, b, now, min(3600, g["max_validity"]))
    at("time", in_time, payload, now, g["max_validity"])
    return {k: v for k, v in out.items() if v}
