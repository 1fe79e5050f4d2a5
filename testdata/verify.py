#!/usr/bin/env python3
"""Reads the vectors as the pages below docs/formats say, with Python's standard library and ssh-keygen alone.

verify.py [FILE...]

Compares what it finds in each case of testdata/vectors/*.json, or of each FILE, with what the case expects. It shares no code with gated.
Exits 0 if no case differs, 1 if one does."""
import glob, json, os, subprocess, sys, tempfile
sys.dont_write_bytecode = True
from secondreader import decision, envelope, form, lists, trees
from secondreader.form import Refused, must, sha, unbase

HERE = os.path.dirname(os.path.abspath(__file__))

def data_of(case):
    """The bytes of a case: text, if they are UTF-8."""
    return case["text"].encode() if "text" in case else unbase(case["base64"])

def merkle(c):
    path, root = [unbase(h) for h in c["proof"]], unbase(c["root"])
    must(all(len(h) == 32 for h in path), "a hash has 32 bytes")
    if "old" in c:
        trees.consistent(c["old"], unbase(c["old_root"]), c["size"], root, path)
    else:
        trees.included(sha(b"\0", c["entry"].encode()), c["seq"] - 1, c["size"], path, root)
    return {}

def evidence(c):
    """Asks scripts/verify-evidence.py, the reader of evidence that needs no gated."""
    with tempfile.TemporaryDirectory() as d:
        call = [sys.executable, os.path.join(HERE, "..", "scripts", "verify-evidence.py")]
        if "gate_key" in c:
            call += ["--gate-key", c["gate_key"]]
        if "witness" in c:
            with open(os.path.join(d, "heads.jsonl"), "w", encoding="utf-8") as f:
                f.write(c["witness"])
            call += ["--witness", "heads.jsonl"]
        with open(os.path.join(d, "evidence"), "w", encoding="utf-8") as f:
            f.write(c["evidence"])
        ran = subprocess.run(call + ["evidence"], cwd=d, capture_output=True, encoding="utf-8")
    words = ran.stdout.strip().split("\n")
    must(ran.returncode == 0, words[-1] or ran.stderr, "")
    return {"step": words[0][len("evidence "):-len(": verified")], "end": words[-1].split()[0]}

KINDS = {
    "payload": lambda c: form.at("decode", {"approval": form.approval, "rejection": form.rejection, "batch": form.batch}[c["form"]], data_of(c)),
    "allowed_signers": lambda c: {"lines": [l.show(n) for n, l in lists.signers(data_of(c))]},
    "revoked": lambda c: {"keys": lists.revoked(data_of(c))},
    "envelope": envelope.verify,
    "decision": decision.decide,
    "merkle": merkle,
    "head": lambda c: trees.head(c["note"], c["key"]),
    "evidence": evidence,
}

def outcome(kind, case):
    """What a case is found to be, in the form of what it expects."""
    try:
        return {"accepted": KINDS[kind](case)}
    except Refused as r:
        return {"refused": {k: v for k, v in (("code", r.code), ("stage", r.stage), ("line", r.line)) if v}, "words": str(r)}

def differs(kind, case):
    """How a case differs from what it expects; empty if it does not."""
    found = outcome(kind, case)
    if "accepted" in case:
        same = found.get("accepted") == case["accepted"]
    else:
        same = found.get("refused") == {k: v for k, v in case["refused"].items() if k != "why"}
    return "" if same and ("accepted" in case) != ("refused" in case) else json.dumps(found, sort_keys=True)

def main():
    files, read, bad = sys.argv[1:] or sorted(glob.glob(os.path.join(HERE, "vectors", "*.json"))), 0, 0
    for name in files:
        with open(name, encoding="utf-8") as f:
            doc = json.load(f)
        if doc["kind"] not in KINDS or not doc["cases"]:
            print("%s: no reader for kind %s, or no case" % (name, doc["kind"]))
            bad += 1
        for case in doc["cases"] if doc["kind"] in KINDS else []:
            read, found = read + 1, differs(doc["kind"], case)
            if found:
                bad += 1
                print("%s: %s: found %s" % (os.path.basename(name), case["name"], found))
    print("%d cases read, %d differ" % (read, bad))
    sys.exit(1 if bad or not read else 0)

if __name__ == "__main__":
    main()
