"""Proofs in Merkle trees, and signed heads of a log: docs/formats/audit.md."""
import hashlib, re
from .form import must, sha, unbase

def climb(at, last, path, root, part=b""):
    """Follows a proof (RFC 9162, 2.1.3.2 and 2.1.4.2) from node at of a level that ends with last. Returns both roots."""
    for p in path:
        must(last != 0, "a proof is too long", "binding_mismatch")
        if at & 1 or at == last:
            root, part = sha(b"\1", p, root), sha(b"\1", p, part)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            root = sha(b"\1", root, p)
        at, last = at >> 1, last >> 1
    must(last == 0, "a proof is too short", "binding_mismatch")
    return root, part

def included(leaf, index, size, path, root):
    must(0 <= index < size and climb(index, size - 1, path, leaf)[0] == root, "the leaf is not in the tree", "binding_mismatch")

def consistent(first, first_root, second, root, path):
    if first >= second:
        must(first == second and not path and first_root == root, "the log does not go on", "binding_mismatch")
        return
    path, at, last = [first_root] + path if first & (first - 1) == 0 else path, first - 1, second - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    must(path and climb(at, last, path[1:], path[0], path[0]) == (root, first_root), "the log does not go on", "binding_mismatch")

def head(note, key):
    """Checks a signed head with the gate's public key, as the reader knows it."""
    m = re.fullmatch(r"(gated/[0-9a-f]{32})\+([0-9a-f]{8})\+(.{44})", key)
    must(m, "the key has not its form")
    name, public = m[1], unbase(m[3])
    must(len(public) == 33 and public[0] == 1 and sha(name.encode(), b"\n", public)[:4].hex() == m[2], "the key's hash is another one")
    must(len(note.encode()) <= 4096, "a head has at most 4 KiB")
    text, _, lines = note.rpartition("\n\n")
    text += "\n"
    signatures = [line.split(" ") for line in lines.split("\n")[:-1]]
    must(lines.endswith("\n") and all(len(s) == 3 and s[0] == "\u2014" for s in signatures), "this is no signed note", "bad_signature")
    signed = [s for s in map(unbase, [s[2] for s in signatures if s[1] == name]) if s[:4].hex() == m[2]]
    must(signed and ed25519(public[1:], text.encode(), signed[0][4:]), "the key did not sign this note", "bad_signature")
    n = re.fullmatch("([^\n]+)\n(0|[1-9][0-9]{0,18})\n([^\n]+)\n", text)
    must(n and n[1] == name and len(signatures) == 1 and len(unbase(n[3])) == 32, "the note has not the form of a head of this gate")
    return {"gate": name[6:], "size": int(n[2]), "root": n[3]}

# Ed25519 (RFC 8032, section 5.1.7): ssh-keygen reads no signed notes.

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P

def add(a, b):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    m, n, c, d = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P, 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = n - m, d - c, d + c, n + m
    return e * f % P, g * h % P, f * g % P, e * h % P

def times(n, point):
    out = (0, 1, 1, 0)
    while n:
        out, point, n = add(out, point) if n & 1 else out, add(point, point), n >> 1
    return out

def point_of(data):
    y, sign = int.from_bytes(data, "little") & (1 << 255) - 1, data[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or not x and sign:
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P

def ed25519(public, message, signature):
    a, r, s = point_of(public), point_of(signature[:32]), int.from_bytes(signature[32:], "little")
    if not a or not r or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    base = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    (x1, y1, z1, _), (x2, y2, z2, _) = times(s, base), add(r, times(k, a))
    return not (x1 * z2 - x2 * z1) % P and not (y1 * z2 - y2 * z1) % P
