"""What a gate decides about payloads that it did not issue: steps 8 to 12 of docs/formats/payload.md."""
from .form import approval, at, must, unbase
from .envelope import verify

class Waiting:
    """A request: its bytes, and who signed it until now."""
    def __init__(self, message): self.message, self.people, self.keys, self.state = message, set(), set(), "pending_signature"

def decide(case):
    requests = {}  # by nonce
    for env in case["before"]:
        take(case, env, requests)
    return {"state": take(case, case["envelope"], requests).state}

def take(case, env, requests):
    signers = verify({"gate": case["gate"], "now": case["now"], "envelope": env})["signers"]
    message = unbase(env["payload"])
    p = approval(message)
    known = requests.get(p["nonce"])
    at("nonce", lambda: must(not known or known.state == "pending_signature", "the nonce is spent", "replayed"))
    at("nonce", lambda: must(not known or known.message == message, "the nonce was issued for other bytes", "binding_mismatch"))
    at("role", lambda: must(all(s["role"] in case["roles"] for s in signers), "the role may not approve the operation", "role_denied"))
    at("binding", lambda: must((p["incarnation"], p["state"]) == (case["target"]["incarnation"], case["target"]["state"]), "the target is another one", "stale_target"))
    r, new = known or Waiting(message), False
    for s in signers:
        if s["principal"] not in r.people and s["key"] not in r.keys:
            r.people.add(s["principal"])
            r.keys.add(s["key"])
            new = True
    at("policy", lambda: must(new, "the envelope adds no person and no key", "threshold_unmet"))
    if len(r.people) >= case["threshold"]:
        r.state = "authorized"
    requests[p["nonce"]] = r
    return r
