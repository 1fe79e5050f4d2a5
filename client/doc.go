// Package client calls a gate: it asks for steps, waits for operators, reserves paths and reads what the gate knows. gated,
// opsign and gated's MCP server call their gate with it. docs/guides/client.md is an introduction.
//
// New finds the socket as every program of gated does, and checks that root, the caller or the uid in GATED_UID listens
// there. Through the system's ssh, a gate on another host can be called (Options.Remote). The gate knows the caller by the
// uid and the process that connected. An agent with a token sends it (Options.Token).
//
// A method makes one call, or one for each page. Package gated/client/api has the objects that it sends and returns. Without
// a deadline in its context, a call ends after 90 seconds, or after five minutes if the gate is remote. A method that waits
// has the wait in addition.
//
// Errors are of three kinds:
//
//   - *Refusal: the gate said no. errors.Is finds its code, such as api.CodeConflict. Comments leave the prefix out: they
//     say Conflict. *Conflicted is a refusal with the reservations in the way.
//   - *Unreachable: no gate answered. Asked says whether the call may have had its effect.
//   - the error of the context
//
// A job that waits for a signature is no error: that is its state.
//
// For operators, the package also keeps the file of the gates that a user met (KnownGates).
package client
