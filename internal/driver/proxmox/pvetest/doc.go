// Package pvetest is a simulated Proxmox VE for tests. It answers the REST API
// over TLS on the loopback, checks every request against the official schema of
// the API, and keeps state as the real one does. What it was made from, and what
// it does not do, is in docs/design/proxmox-simulator.md.
//
//	c := pvetest.New(t)                             // ends with the test
//	id := c.Make(pvetest.Spec{Name: "web1"})        // a guest by other hands
//	client: c.URL(), "PVEAPIToken=" + pvetest.TokenID + "=" + pvetest.Secret,
//	        c.CertPEM() as CA or c.Fingerprint() to pin
//
// A request with a path, method, parameter, type, value or bound that the schema
// does not have is answered 400 or 501, and fails the test when it ends; a test
// that means to send such calls Expect.
//
// # Errors
//
// As with the real one, the reason of an error is in the status line ("500 VM is
// locked (backup)"), and the body's data is null. A 500 says nothing about
// whether something was done.
//
// # Tasks
//
// What takes time answers with a UPID. The work is done at once, unless a test
// holds it:
//
//	h := c.Hold("qmdestroy")  // "" is every kind
//	<-h.Came()                // a task has begun, with its lock, and runs
//	h.Release()               // or h.Fail("...")
//
// # Faults
//
//	c.Break(pvetest.Rule{Method: "DELETE", Path: "/qemu/{vmid}", Fault: pvetest.DropAfter, Times: 1})
//	c.Break(pvetest.Rule{Path: "qmdestroy", Fault: pvetest.Lie}) // for Lie, Path is the kind of task
//
// The first rule that fits is met; Met, Came and Release are its rule's. A server
// that drops a connection that was used before makes net/http send a GET again, so
// such a rule may be met twice.
//
// # Other hands
//
// Make, Remake (another guest under the same vmid and name), Remove, Set,
// SetProtection, SetLock, SetRunning, SetDeaf, SetNode, SetOffline, SetVersion,
// MoveDisk, Write, AddVolume, AddStorage and Revoke (privileges of the token)
// change the cluster past the API. Freeze lets /cluster/resources go stale, as the
// real one is for seconds. Guest, Exists, VMID, Volumes and Data look at the
// cluster; they count as no request. Counts and Requests say what was asked for.
package pvetest
