// The one module of these pages: passkeys, and what changes while a page is open. Every
// page can be read without it. Text of a gate is never markup: this writes text alone.

const encode = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

const decode = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

// say writes into the live region of a form, which screen readers read out.
function say(form, text, kind = "") {
  const region = form.querySelector("[role=status]");
  region.textContent = text;
  region.dataset.kind = kind;
}

// Refused is what the server, the gate or the browser said no to.
class Refused extends Error {}

// post sends an object and returns the one that is answered.
async function post(path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refused("The page's server does not answer. Whether the last step counted is not known: reload the page.");
  }
  const kind = answer.headers.get("Content-Type") ?? "";
  if (answer.ok && kind.startsWith("application/json")) return answer.json();
  if (!kind.includes("json")) {
    throw new Refused(answer.status === 401
      ? "Your session has ended. Sign in again."
      : `The page's server refused this (${answer.status}). Reload the page.`);
  }
  const problem = await answer.json();
  throw new Refused([problem.detail, problem.hint].filter(Boolean).map(sentence).join(" "));
}

// sentence begins with a capital letter, unless that is of a name like j1.1, and ends with a
// full stop.
const sentence = (text) =>
  (/^[a-z]+[ ,:]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text) + (/[.!?]$/.test(text) ? "" : ".");

// The passkey with which this browser signed last. It is no secret; it spares a choice.
const remembered = "gated-passkey";

// sign asks the browser for a signature (WebAuthn Level 3, section 5.1.4).
async function sign(ceremony, id = localStorage.getItem(remembered)) {
  let made;
  try {
    made = await navigator.credentials.get({
      publicKey: {
        challenge: decode(ceremony.challenge),
        rpId: ceremony.rpId,
        userVerification: ceremony.userVerification,
        allowCredentials: id ? [{ type: "public-key", id: decode(id) }] : [],
        timeout: 120_000,
      },
    });
  } catch (e) {
    localStorage.removeItem(remembered); // another passkey may be meant
    throw refusedBy(e, ceremony.rpId);
  }
  const r = made.response;
  return {
    id: encode(made.rawId),
    clientDataJSON: encode(r.clientDataJSON),
    authenticatorData: encode(r.authenticatorData),
    signature: encode(r.signature),
    userHandle: r.userHandle ? encode(r.userHandle) : "",
  };
}

// refusedBy puts an error of the browser into a sentence.
function refusedBy(e, rpId) {
  switch (e.name) {
    case "NotAllowedError":
      return new Refused("Nothing was signed: the question was closed, took too long, or there is no passkey for this site. Try again.");
    case "SecurityError":
      return new Refused(`Nothing was signed: a page at ${location.origin} may not use passkeys of ${rpId}.`);
    case "InvalidStateError":
      return new Refused("This authenticator already has a passkey for you here.");
    case "NotSupportedError":
      return new Refused("This authenticator makes no key that OpenSSH verifies. Use another one.");
    default:
      return new Refused(`Nothing was signed: the browser says ${e.name}.`);
  }
}

// A ceremony or a half-filled form must not be swept away by news.
let busy = 0;

// working runs what a button starts, once at a time, and shows how it ends.
async function working(form, what) {
  if (form.ariaBusy === "true") return;
  const buttons = form.querySelectorAll("button");
  form.ariaBusy = "true";
  busy++;
  for (const b of buttons) b.disabled = true;
  try {
    await what();
  } catch (e) {
    say(form, e instanceof Refused ? e.message : `Something broke in this page: ${e.message}. Reload it.`, "refused");
  } finally {
    for (const b of buttons) b.disabled = false;
    busy--;
    form.ariaBusy = "false";
  }
}

// onSubmit shows a form, which does nothing without this module, and takes it over.
function onSubmit(selector, run) {
  for (const form of document.querySelectorAll(selector)) {
    form.hidden = false;
    if (!window.PublicKeyCredential) {
      say(form, "This browser has no passkeys, or the page's address is not https.", "refused");
      continue;
    }
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      working(form, () => run(form, e.submitter));
    });
  }
}

async function signIn(form) {
  say(form, "Your browser asks for your passkey.");
  const ceremony = await post("/sign-in/challenge", {});
  const assertion = await sign(ceremony, "");
  const { to } = await post("/sign-in", { message: ceremony.message, assertion, to: form.dataset.to });
  localStorage.setItem(remembered, assertion.id);
  location.assign(to);
}

async function enrol(form) {
  const principal = form.elements.principal.value.trim();
  const role = form.elements.role.value.trim();
  const ceremony = await post("/enrol/challenge", {});
  say(form, "Your browser asks where to keep the new passkey.");
  let made;
  try {
    made = await navigator.credentials.create({
      publicKey: {
        rp: { id: ceremony.rpId, name: "gated" },
        user: { id: crypto.getRandomValues(new Uint8Array(32)), name: principal, displayName: principal },
        challenge: crypto.getRandomValues(new Uint8Array(32)),
        pubKeyCredParams: [{ type: "public-key", alg: -7 }],
        authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "preferred" },
        attestation: "none",
        timeout: 120_000,
      },
    });
  } catch (e) {
    throw refusedBy(e, ceremony.rpId);
  }
  const key = made.response.getPublicKey?.();
  if (!key) throw new Refused("This browser does not give the new key in a form that can be read. Use a current one.");
  say(form, "Your browser asks for a trial signature with the new passkey.");
  const id = encode(made.rawId);
  const assertion = await sign(ceremony, id);
  const out = await post("/enrol", { message: ceremony.message, assertion, key: encode(key), principal, role });
  localStorage.setItem(remembered, id);
  const result = document.getElementById("made");
  for (const name of ["line", "fingerprint", "command"]) {
    result.querySelector(`[data-made=${name}]`).textContent = out[name];
  }
  result.querySelector("[data-made=synced]").hidden = !out.synced;
  result.hidden = false;
  say(form, "The trial signature is one that OpenSSH verifies. The passkey is not listed yet: read on below.", "done");
  result.querySelector("h2").focus();
}

// confirmed reads what a form asks a person for before anything is signed: what has to be typed
// for what cannot be undone, or the reason of a rejection.
function confirmed(form, button, what) {
  const decision = button?.value ?? "";
  const { typed } = form.dataset;
  if (decision === "approve" && typed && form.elements.typed.value.trim() !== typed) {
    form.elements.typed.focus();
    throw new Refused(`This cannot be undone. To approve it, type ${what} first: ${typed}`);
  }
  const reason = decision === "reject" ? form.elements.reason.value.trim() : "";
  if (decision === "reject" && !reason) {
    form.elements.reason.focus();
    throw new Refused("Say why you reject it: the requester reads that.");
  }
  return { decision, reason, role: decision === "approve" ? form.elements.role.value : "" };
}

// signed has one request signed: its challenge, a touch, and what the gate says then.
async function signed({ path, payload, seen }, group, { decision, role, reason }) {
  const shown = { role, payload_sha256: payload, seen, group };
  const ceremony = await post(`${path}/challenge`, { ...shown, decision, reason });
  const assertion = await sign(ceremony);
  return post(`${path}/${decision}`, { ...shown, message: ceremony.message, assertion });
}

async function decide(form, button) {
  const wish = confirmed(form, button, "the name of the target");
  wish.role ||= button.dataset.role;
  say(form, `Your browser asks for your passkey, to ${wish.decision}.`);
  const { to } = await signed(form.dataset, "", wish);
  location.assign(to);
}

// What became of a group stays on its page, which is not swapped any more.
let told = false;

// together decides on the requests of a group after one confirmation, one after the other. Each
// has a signature of its own. What was not reached is said, and goes on when it is asked again.
async function together(form, button) {
  const wish = confirmed(form, button, "how many of what");
  const rows = [...document.querySelectorAll("tr[data-path]")].filter(({ dataset }) =>
    dataset[wish.decision] && (dataset.done ?? wish.decision) === wish.decision);
  const left = rows.filter((row) => !row.dataset.done);
  const outcome = (row, text) => (row.querySelector("[data-outcome]").textContent = text);
  const tally = () => `${rows.filter((row) => row.dataset.done).length} of ${rows.length} signed.`;
  told = true;
  for (const row of left) outcome(row, "Not signed yet.");
  for (const row of left) {
    say(form, `${tally()} Your browser asks for your passkey, to ${wish.decision} ${row.dataset.name}.`);
    const role = wish.role || row.dataset.reject;
    try {
      const { state } = await signed(row.dataset, form.dataset.group, { ...wish, role });
      row.dataset.done = wish.decision;
      outcome(row, state === "pending_signature" ? "Signed. It needs more signatures." : `Signed. It is ${state}.`);
    } catch (e) {
      outcome(row, e instanceof Refused ? e.message : "What became of this is not known: open its page.");
      if (!(e instanceof Refused)) throw e;
      throw new Refused(`${tally()} It ended at ${row.dataset.name}: ${e.message}`);
    }
  }
  say(form, `${tally()} Reload the page to see what waits now.`, "done");
}

// takeOver gives the forms of the page, or of a part that was swapped, their work.
function takeOver() {
  onSubmit("form[data-sign-in]", signIn);
  onSubmit("form[data-enrol]", enrol);
  onSubmit("form[data-decide]", decide);
  onSubmit("form[data-together]", together);
}

// edited reports whether a person began to fill in a form, or has to read why something was refused.
const edited = () =>
  document.querySelector("main [role=status][data-kind=refused]") !== null ||
  [...document.querySelectorAll("main input:not([type=hidden]), main textarea, main select")].some((e) =>
    e.value !== (e.tagName === "SELECT" ? ([...e.options].find((o) => o.defaultSelected) ?? e.options[0])?.value : e.defaultValue));

// refresh asks for the page again and swaps what changes. A document that is parsed by
// XMLHttpRequest runs no script, and needs no policy of trusted types.
function refresh() {
  if (told) return;
  if (busy || edited()) {
    notice(changed);
    return;
  }
  const ask = new XMLHttpRequest();
  ask.open("GET", location.href);
  ask.responseType = "document";
  ask.onload = () => {
    const fresh = ask.response?.querySelector("main[data-live]");
    if (ask.status >= 500) {
      notice(silent); // it may come back, and what was shown is still what there is
      return;
    }
    if (ask.status !== 200 || !fresh) {
      location.reload(); // signed out, or the request is gone
      return;
    }
    if (told) return;
    if (busy || edited()) {
      notice(changed);
      return;
    }
    const old = document.querySelector("main[data-live]");
    const focused = document.activeElement?.id;
    const open = new Set([...old.querySelectorAll("details[open]")].map((d) => d.id));
    old.replaceWith(document.adoptNode(fresh));
    document.title = ask.response.title;
    for (const d of document.querySelectorAll("main details")) if (d.id && open.has(d.id)) d.open = true;
    notice("");
    takeOver(); // which shows forms: what is hidden takes no focus
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };
  ask.onerror = () => notice(away);
  ask.send();
}

const changed = "This page changed. Reload it before you decide.";
const silent = "The gate does not answer now. What you see may be old, and nothing can be signed.";
const away = "The page's server does not answer. What you see may be old.";

// notice says something about the whole page, in the region that the layout has for it.
function notice(text) {
  const region = document.getElementById("live");
  if (region) region.textContent = text;
}

// heard is called with the gates that changed, each with a version that only grows.
let waiting = 0;
function heard(gates) {
  const main = document.querySelector("main[data-live]");
  if (!main) return;
  const shown = Number(main.dataset.version);
  const of = main.dataset.live.split(" "); // gates' names, or * for all
  if (!gates.some((g) => (of.includes("*") || of.includes(g.name)) && g.version > shown)) return;
  clearTimeout(waiting); // many changes at once are one
  waiting = setTimeout(refresh, 150);
}

// live follows the server's events. One tab of the browser has the stream, and tells the
// others; when it is closed, another one takes it over.
function live() {
  const channel = new BroadcastChannel("gated-events");
  const latest = new Map(); // of the tab that has the stream
  let leads = false;
  const tell = (gates) => {
    channel.postMessage({ gates });
    heard(gates);
  };
  channel.onmessage = ({ data }) => {
    if (data.gates) heard(data.gates);
    if (data.hello && leads && latest.size) channel.postMessage({ gates: [...latest.values()] });
  };
  channel.postMessage({ hello: true });
  const stream = () =>
    new Promise((ended) => {
      leads = true;
      const source = new EventSource("/events");
      source.addEventListener("gates", (e) => {
        const gates = JSON.parse(e.data);
        for (const g of gates) latest.set(g.name, g);
        if (document.getElementById("live")?.textContent === away) notice("");
        tell(gates);
      });
      source.onerror = () => {
        notice(away);
        if (source.readyState === EventSource.CLOSED) {
          leads = false;
          setTimeout(ended, 15_000); // refused: the session ended, or too many streams are open
        }
      };
    });
  const follow = () => navigator.locks.request("gated-events", stream).then(follow);
  follow();
}

takeOver();
if (document.querySelector("main[data-live]") && window.EventSource && navigator.locks) live();
