// The token is in the fragment, which the browser sent to nobody. It leaves the address at once, so that no history keeps it.
const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
if (token) {
  const answer = await fetch("/launch", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) {
    location.replace("/");
  } else {
    document.getElementById("said").textContent =
      "The token is not valid: it was used, or is too old. Open the newest address in the terminal of opsign web.";
  }
}
