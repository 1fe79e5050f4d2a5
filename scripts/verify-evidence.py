#!/usr/bin/env python3
"""Verifies evidence of a gate (docs/formats/evidence.md) with Python's standard library and ssh-keygen alone.

verify-evidence.py [--gate-key KEY] [--witness FILE] FILE|DIR...

KEY is the gate's public key as you know it, gated/ID+HASH+KEY. FILE of --witness is your own opsign witness export; it may be given again. Give at least one.
Exits 0 if all evidence is verified, 1 if any is not, 2 if nothing can be verified: a wrong command line, a file
that cannot be read, no evidence, no ssh-keygen."""
import sys
sys.path[:] = sys.path[1:]  # a json.py beside this file is not believed
import argparse, base64, calendar, hashlib, json, os, re, shutil, subprocess, tempfile, time

TABLE = (("planned compensated", "new", "planned"), ("requested", "new planned", "pending"), ("reissued signed", "pending", "pending"),
        ("approved", "pending", "authorized"), ("rejected expired", "pending authorized", ""), ("superseded cancelled refused", "planned pending authorized", ""),
        ("dispatched", "planned authorized", ""), ("retried", "dispatched", "planned"), ("succeeded failed interrupted", "dispatched", ""))
MOVES = {kind: (froms.split(), to or kind) for kinds, froms, to in TABLE for kind in kinds.split()}  # docs/design/states.md

class Wrong(Exception): """The evidence does not hold."""

def must(held, why):
    if not held:
        raise Wrong(why)

def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def hexsha(data): return hashlib.sha256(data).hexdigest()
def unbase(text): return base64.b64decode(text, validate=True)
def wire(*parts): return b"".join(len(s).to_bytes(4, "big") + s for s in parts)  # strings of RFC 4251, section 5
def form(value): return json.dumps(value, sort_keys=True)  # in Python 1 == True == 1.0, in a form not

def decode(text):
    value = json.loads(text, object_pairs_hook=once, parse_constant=int)  # int refuses NaN
    json.dumps(value, ensure_ascii=False).encode()  # refuses bytes that are no UTF-8, and half a surrogate pair
    return value

def fingerprint(key): return "SHA256:" + base64.b64encode(sha(key)).decode().rstrip("=")

def once(pairs):
    must(len(dict(pairs)) == len(pairs), "a JSON object has a member twice")
    return dict(pairs)

def entry_of(text):
    """Returns an entry of the log, and one of version 1 in the form of version 2 (docs/formats/audit.md)."""
    e = decode(text)
    must(e.get("v", 2) == 2, "an entry is of a version that this program does not know")
    if "v" not in e:
        e = {m: v for m, v in e.items() if m not in ("signers_file", "shown_sha256", "in_force", "revoked_keys", "rejection")}
        if e["kind"] in ("started", "trusted", "rotated") and e.get("epoch"):
            e["signers_file"] = {"epoch": e["epoch"], "sha256": e.get("digest")}
        if e["kind"] in ("requested", "reissued") and e.get("digest"):
            e["shown_sha256"] = e["digest"]
    return e

def seconds(text):
    m = re.fullmatch(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?Z", text)
    must(m, "this is no time: %s" % text)
    return calendar.timegm(time.strptime(m[1], "%Y-%m-%dT%H:%M:%S"))

def in_time(p, at): return seconds(p["issued_at"]) - 60 <= at <= seconds(p["expires_at"]) + 60

def keygen(signers, principal, namespace, at, armor, message):
    """Whether ssh-keygen accepts a signature with this list of signers at this time (seconds since 1970)."""
    with tempfile.TemporaryDirectory() as dir:
        for name, text in (("signers", signers), ("sig", armor)):
            with open(os.path.join(dir, name), "wb") as f:
                f.write(text.encode())
        call = ["ssh-keygen", "-Y", "verify", "-f", dir + "/signers", "-I", principal, "-n", namespace, "-s", dir + "/sig"]
        call.append("-Overify-time=" + time.strftime("%Y%m%d%H%M%S", time.gmtime(at)))
        return subprocess.run(call, input=message, env=dict(os.environ, TZ="UTC"), capture_output=True).returncode == 0

def climb(at, last, path, root, part=b""):
    """Follows a proof (RFC 9162, 2.1.3.2 and 2.1.4.2) from node at of a level that ends with last. Returns both roots."""
    for p in path:
        must(last != 0, "a proof is too long")
        if at & 1 or at == last:
            root, part = sha(b"\1", p, root), sha(b"\1", p, part)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            root = sha(b"\1", root, p)
        at, last = at >> 1, last >> 1
    must(last == 0, "a proof is too short")
    return root, part

def included(leaf, index, size, path, root): return 0 <= index < size and climb(index, size - 1, path, leaf)[0] == root

def consistent(first, first_root, second, root, path):
    if first >= second:
        return first == second and not path and first_root == root
    path, at, last = [first_root] + path if first & (first - 1) == 0 else path, first - 1, second - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    return bool(path) and climb(at, last, path[1:], path[0], path[0]) == (root, first_root)

def checkpoint(note):
    text = note.split("\n\n")[0] + "\n"
    origin, size, root, end = text.split("\n")
    must(re.fullmatch("gated/[0-9a-f]{32}", origin) and re.fullmatch("[1-9][0-9]*", size) and not end, "a head has not the form of one")
    return text, origin, int(size), unbase(root)

def own_heads(names):
    """The heads in the reader's own files, and those of lines that contradicted one: each is gate, size and root."""
    heads, doubted = [], []
    for name, n, line in ((name, n, line) for name in names for n, line in enumerate(open(name, encoding="utf-8"), 1)):
        try:
            r = decode(line)
            head = checkpoint(r["note"])[1:]
            must(isinstance(r.get("against", {}), dict), "against is no object")
        except (Wrong, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise Wrong("%s:%d: this is no line of opsign witness export (%s)" % (name, n, e))
        (doubted if "against" in r else heads).append(head)
    return heads, doubted

def head_of(doc, key, kept, out):
    """Returns size and root of the head, and up to which entry the reader's key or the reader's witness vouches for it."""
    (text, origin, size, root), vouched = checkpoint(doc["head"]["note"]), 0
    must(not key or origin == key.split("+")[0], "the head is of another gate than the key")
    if key and "ssh" in doc["head"]:
        blob = base64.b64encode(wire(b"ssh-ed25519", unbase(key.split("+", 2)[2])[1:])).decode()
        must(keygen('gate namespaces="head@log.gated" ssh-ed25519 %s\n' % blob, "gate", "head@log.gated", 1, doc["head"]["ssh"], text.encode()),
             "the head is not signed with the gate's key")
        vouched = size
        out.append("the gate signed the head of %d entries" % size)
    else:
        out.append("NOT verified: that the gate signed the head, because the evidence has no SSH signature or you gave no --gate-key")
    if kept is not None:
        must("witness" in doc, "the evidence names no head of a witness: make it with gated evidence --witness")
        _, seen_by, seen, seen_root = checkpoint(doc["witness"]["note"])
        heads = [(n, r) for of, n, r in kept[0] if of == origin]
        must((seen, seen_root) in heads, "the head of the witness is not in your file")
        newest = max(heads)[0]
        must(len({r for n, r in heads if n == newest}) < 2, "your file has two heads of this gate of the same size that differ: it showed two logs")
        must(seen == newest, "your file has a newer head of this gate, of %d entries: have the evidence made anew with it" % newest)
        doubted = sum(of == origin for of, _, _ in kept[1])
        out += ["heads in your file that contradicted a kept one: %d; opsign witness says more" % doubted] * (doubted > 0)
        must(seen_by == origin and consistent(seen, seen_root, size, root, [unbase(h) for h in doc["witness"]["proof"]]),
             "the log does not go on from the head that the witness saw")
        out.append("the log goes on from the head of %d entries that the witness saw" % seen)
        if vouched and doc["entries"][-1]["seq"] > seen:
            out.append("NOT verified by a witness: entries after entry %d, for which the gate alone vouches" % seen)
        vouched = max(vouched, seen)
    must(vouched, "neither the gate's key nor a witness vouches for the head")
    return size, root, vouched

def strings(blob, n):
    """Reads n strings of RFC 4251, section 5, and returns them and the rest."""
    end = 4 + int.from_bytes(blob[:4], "big")
    must(n == 0 or len(blob) >= end, "a signature is cut off")
    more, rest = strings(blob[end:], n - 1) if n else ([], blob)
    return [blob[4:end]] * (n > 0) + more, rest

def parts_of(armor):
    """The namespace of a signature; its key, its authority and what a security key attested, as the log writes them; the flags."""
    blob = unbase("".join(armor.strip().split("\n")[1:-1]))
    (key, namespace, _, _, inner), rest = strings(blob[10:], 5)
    must(blob[:10] == b"SSHSIG\0\0\0\1" and not rest, "a signature is no SSHSIG")
    ((kind,), fields), ca = strings(key, 1), ""
    if kind.endswith(b"-cert-v01@openssh.com"):  # the key as it is without its certificate
        kind = kind.replace(b"-cert-v01@openssh.com", b"@openssh.com" if kind.startswith(b"sk-") else b"")
        fields, rest = strings(fields, 1 + {b"ssh-ed25519": 1, b"sk-ecdsa-sha2-nistp256@openssh.com": 3}.get(kind, 2))
        key, (_, rest) = wire(kind, *fields[1:]), strings(rest[12:], 2)  # after serial and type: key id, principals
        ca = " ca=" + fingerprint(strings(rest[16:], 4)[0][3])  # after its times: options, extensions, reserved, the authority's key
    (way, _), rest = strings(inner, 2)
    attested = " flags=0x%02x counter=%d" % (rest[0], int.from_bytes(rest[1:5], "big")) if len(rest) >= 5 else ""
    origin = " origin=" + strings(rest[5:], 1)[0][0].decode() if way.startswith(b"webauthn-") else ""
    return namespace.decode(), fingerprint(key) + ca + attested + origin, rest[0] if rest else 0

def in_force(doc, entry, entries, out):
    """By what the entry decided: the list of signers in the evidence is that one, and which keys were revoked."""
    rules = [e for e in entries if e["kind"] in ("started", "trusted", "rotated") and e["seq"] < entry["seq"]]
    loaded = ([e for e in rules if e["kind"] != "rotated"] or [{}])[-1]
    force = entry["in_force"] if "in_force" in entry else ([e["signers_file"] for e in rules if "signers_file" in e] or [{}])[-1]
    listed = doc.get("signers", {"text": "", "epoch": 0})
    must(form([hexsha(listed["text"].encode()), listed["epoch"]]) == form([force.get("sha256"), force.get("epoch")]), "the list of signers is not the one in force then")
    if "in_force" not in entry:
        out.append("NOT verified: that this was the newest list, which keys were revoked, what was needed: an older program wrote the log")
        return {}, []
    must(loaded.get("revoked") == force.get("revoked"), "the revoked keys shown are not those in force then")
    if force.get("revoked") == "unreadable":  # any listed key may stop a step then
        must(entry["kind"] == "rejected", "it was approved while the gate could not read which keys are revoked")
        out.append("NOT verified: which keys were revoked then, because the gate could not read it")
        return force, []
    if "revoked_keys" not in loaded and loaded.get("revokes"):
        out.append("NOT verified: which keys were revoked then, because the log has too many to name them")
    return force, loaded.get("revoked_keys", [])

def signatures(doc, entry, found, message, entries, out):
    """Checks that exactly the signers of the entry signed. Returns what was in force, and of each signer name, role, key, flags, passkey, batch."""
    (force, revoked), left, people, at = in_force(doc, entry, entries, out), list(entry["signers"]), [], seconds(entry["time"])
    for s in found:
        (namespace, tail, flags), batch = parts_of(s["armor"]), s.get("batch") is not None
        role, _, use = namespace.partition("@")
        end = " %s %s" % (role, tail) + (" batch=" + hexsha(unbase(s["batch"]["payload"])) if batch else "")
        lines = [l for l in left if l.endswith(end) and l != end]
        must(lines and use == ("batch.gated" if batch else "gated"), "a signature is not by a key that the log names, or is there twice")
        left.remove(lines[0])
        principal, data = lines[0][:-len(end)], message
        must(not set(revoked) & set(tail.replace(" ca=", " ").split(" ")[:2]), "a key that signed was revoked then")
        if batch:
            data, path = unbase(s["batch"]["payload"]), [bytes.fromhex(h) for h in s["batch"].get("path") or []]
            b = decode(data)
            must(b["role"] == role and b["type"] == "gated/batch-approval/v1", "another batch was signed")
            handed = [e for e in entries if e.get("step") == doc["step"] and e["kind"] in ("signed", "approved") and lines[0] in e.get("signers", [])][0]
            must(in_time(b, seconds(handed["time"])), "the batch was not in time")
            must(included(sha(b"\0", sha(message)), s["batch"]["index"], b["count"], path, bytes.fromhex(b["root"])), "the batch has other payloads")
        must(keygen(doc["signers"]["text"], principal, namespace, at, s["armor"], data), "ssh-keygen refuses the signature of %s as %s" % (principal, role))
        people.append((principal, role, tail.split(" ")[0], flags, " origin=" in tail, batch))
    must(not left and people, "a signature that the log names is not in the evidence")
    out.append("%s at %s by %s" % (entry["kind"], entry["time"], ", ".join("%s as %s" % q[:2] for q in people)))
    return force, people

def met(d, people, threshold):
    bits = {"": 0, "touch": 1, "verification": 5}[d["touch"]]
    return threshold <= sum(role in d["roles"] and flags & bits == bits and not (passkey and d.get("no_passkey")) for _, role, _, flags, passkey, _ in people)

def counting(need, people):
    """Those whose signatures count: no batch does where each step is signed alone, or in a role that signs none or has to verify its user."""
    alone = {"recovery", "breakglass"}.union(*(d["roles"] for w in need["ways"] for d in w["demands"] if d["touch"] == "verification"))
    return [q for q in people if not (q[5] and (need.get("single") or q[1] in alone))]

def requested(doc, asked, out):
    """Checks what operators were asked to sign, and returns its bytes."""
    message, last = unbase(doc.get("payload", "")), asked[-1]
    must(hexsha(message) == last.get("payload_sha256"), "the payload is not the one that was asked for")
    p = decode(message)
    must(p["type"] == "gated/signed-op/v1" and p["host"] == doc["host"] and all(p[m] == last.get(m, "") for m in ("gate", "op", "target", "incarnation")),
         "the payload is of something else than the log says")
    must(all(form(e.get("params", {})) == form(p["params"]) for e in asked if e["kind"] == "requested"), "the payload has other parameters than the request")
    shown = hexsha((doc["shown"]["facts"] + "\n" + doc["shown"]["labels"]).encode())
    must(last.get("shown_sha256") in (None, shown), "what people were shown is not what the log says")
    if "shown_sha256" not in last:
        out.append("NOT verified: what people were shown, because an older program wrote the log")
    return message

def approved(doc, entry, message, entries, stopped, out):
    """Checks the signatures of an approval, and returns the time from which on the step could run."""
    must(hexsha(message) == entry.get("payload_sha256"), "the payload is not the one that was approved")
    p, at = decode(message), seconds(entry["time"])
    must(all(p[m] == entry.get(m, "") for m in ("gate", "incarnation")), "the approval is of something else than the payload")
    if stopped:
        out.append("NOT verified: the signatures of the approval, because the step was rejected later")
        return at
    must(in_time(p, at), "the payload was not in time")
    force, people = signatures(doc, entry, doc.get("signatures", []), message, entries, out)
    must(all(len({q[i] for q in people}) == len(people) for i in (0, 2)), "a person or a key signed twice")
    need = decode(force["need"]) if "in_force" in entry else {"cool_off": 0, "ways": []}
    people = counting(need, people)
    enough = [w for w in need["ways"] if w["demands"] and all(met(d, people, max(d["threshold"], 1)) for d in w["demands"])]
    must(enough or "in_force" not in entry, "the signatures are not all that was needed")
    return at + max([need["cool_off"]] + [w.get("delay", 0) for w in need["ways"] if any(met(d, people, 1) for d in w["demands"])])

def rejected(doc, entry, asked, entries, out):
    said, p = entry["rejection"], decode(entry["rejection"]["payload"])
    must(hexsha(said["payload"].encode()) == entry["payload_sha256"] and p["type"] == "gated/rejection/v1" and p["request"] == doc["step"]
         and p["payload_sha256"] == asked[-1].get("payload_sha256") and p["gate"] == entry["gate"] and p["host"] == doc["host"],
         "the rejection is of something else")
    must(in_time(p, seconds(entry["time"])), "the rejection was not in time")
    signatures(doc, entry, [{"armor": a} for a in said["signatures"]], said["payload"].encode(), entries, out)

def replay(doc, entries, out):
    """Moves the step as its entries say, from one state to the next, and checks each signature on the way. Returns the entries that moved it, and gate and
    nonce of its last request."""
    state, asked, begin, yes, message = "new", [], 0, None, b""
    mine = [e for e in entries if e.get("step") == doc["step"] and e["kind"] in MOVES and (e["kind"] != "refused" or e.get("class"))]
    must(len({(e["op"], e["target"]) for e in mine}) < 2, "the entries are of different operations or targets")
    for e in mine:
        froms, to = MOVES[e["kind"]]
        must(state in froms, "entry %d says %s of a step that was %s" % (e["seq"], e["kind"], state))
        must(e.get("class") == "benign" and not asked or (state, e["kind"]) != ("planned", "dispatched") and e["kind"] != "retried", "it ran without an approval, or twice")
        asked += [e] * (e["kind"] in ("requested", "reissued"))
        if e["kind"] == "approved":
            yes, message = e, requested(doc, asked, out)
            begin = approved(doc, e, message, entries, any(f["kind"] == "rejected" for f in mine), out)
        elif e["kind"] == "dispatched" and yes:
            must(e.get("gate", "") == yes.get("gate", ""), "another gate ran it than the one that was asked")
            must(e.get("incarnation", "") == yes.get("incarnation", ""), "it ran on another incarnation")
            must(begin <= seconds(e["time"]) <= seconds(decode(message)["expires_at"]) + 60, "it ran before its wait was over, or after the payload had expired")
        elif e["kind"] == "rejected" and "rejection" in e:
            rejected(doc, e, asked, entries, out)
        elif e["kind"] == "rejected":
            out.append("NOT verified: the signature of the rejection, which the log does not have")
        elif e["kind"] == "dispatched":
            out.append("the gate called it benign by its rule %s: nobody had to sign" % e.get("rule"))
        state = to
    must(state in ("succeeded", "failed", "interrupted", "rejected", "refused"), "no entry says how the step ended")
    if asked and not yes:
        message = requested(doc, asked, out)
    none = not any(doc.get(m) for m in ("payload", "signatures", "proofs")) and doc.get("shown") is None and doc.get("signers") is None
    must(asked or none, "nobody was asked, and the evidence has a request")
    out += ["NOT verified: the %s, on which no approval rests" % m for m in ("signatures", "proofs") if doc.get(m) and (m == "proofs" or not yes)]
    return mine, asked and tuple(decode(message)[m] for m in ("gate", "nonce"))

def verify(doc, key, kept):
    must(doc["type"] == "gated/evidence/v1", "this is no evidence")
    must(re.fullmatch(r"j[1-9][0-9]*\.[1-9][0-9]*", doc["step"]), "this is no step")
    out, entries = [], []
    size, root, vouched = head_of(doc, key, kept, out)
    for e in doc["entries"]:
        must(included(sha(b"\0", e["text"].encode()), e["seq"] - 1, size, [unbase(h) for h in e["proof"]], root), "entry %d is not in the log" % e["seq"])
        must(not entries or entries[-1]["seq"] < e["seq"], "the entries are not in the order of the log")
        must(e["seq"] <= vouched, "entry %d is newer than what the witness saw, and no signature of the gate is verified" % e["seq"])
        entries.append(entry_of(e["text"]))
        must(form(entries[-1]["seq"]) == form(e["seq"]), "an entry has another number than its place in the log")
        seconds(entries[-1]["time"])
    moves, nonce = replay(doc, entries, out)
    last, log, gates = moves[-1], doc["head"]["note"].split("\n")[0], {"gated/" + e["gate"] for e in entries if e.get("step") == doc["step"] and "gate" in e}
    out += ["NOT verified: that the log of %s, which decided this, went on as that of %s" % (g, log) for g in sorted(gates - {log})]
    return ["%s %s" % (last["op"], last["target"])] + out + ["%s at %s" % (last["kind"], last["time"])], moves, nonce

def say(*lines):
    for line in lines:  # a terminal obeys nothing in the evidence, and no text in it makes a line of its own
        print("".join(c if c.isprintable() else "?" for c in line))

def is_key(text):
    """Whether this is the public key of a gate: name, hash and key of a signed note (golang.org/x/mod/sumdb/note)."""
    m = re.fullmatch(r"(gated/[0-9a-f]{32})\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})", text)
    key = unbase(m[3]) if m else b""
    return key[:1] == b"\1" and sha(m[1].encode(), b"\n", key)[:4].hex() == m[2]

def main():
    sys.stdout.reconfigure(errors="backslashreplace")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gate-key")
    p.add_argument("--witness", action="append")
    p.add_argument("files", nargs="+")
    args, kept, bad, used = p.parse_args(), None, 0, {}
    if not (args.gate_key or args.witness) or args.gate_key and not is_key(args.gate_key):
        p.error("give the gate's public key that you know with --gate-key, or your own heads with --witness")
    if not shutil.which("ssh-keygen"):
        p.error("ssh-keygen is not in PATH, and nothing can be verified without it")
    try:
        if args.witness is not None:
            kept = own_heads(args.witness)
        files = [g for f in args.files for g in ([os.path.join(f, n) for n in sorted(os.listdir(f))] if os.path.isdir(f) else [f])]
        lines = [(f, line) for f in files for line in list(open(f, encoding="utf-8", errors="surrogateescape", newline="\n")) or [""]]
    except (OSError, ValueError, Wrong) as e:
        p.error(str(e))
    if not lines:
        p.error("there is no evidence in %s" % ", ".join(args.files))
    for name, line in lines:
        try:
            doc = decode(line)
            words, moves, nonce = verify(doc, args.gate_key, kept)
            there, first = used.setdefault(nonce, (name, moves)) if nonce else (name, moves)
            must(moves == first, "%s and %s of %s differ and have one nonce: one of them had no request of its own" % (doc["step"], first[0]["step"], there))
            say("%s %s: verified" % (name, doc["step"]), *("  " + w for w in words))
        except (Wrong, OSError, KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as e:
            bad = 1
            say("%s: NOT VERIFIED: %s" % (name, e if isinstance(e, Wrong) else "it has not the form of evidence (%r)" % e))
    sys.exit(bad)

if __name__ == "__main__":
    main()
