// Package pvetest is a simulated Proxmox VE for tests. It answers the REST API over TLS on the
// loopback and checks every request against the official schema of the API. It keeps state as
// the real one does. docs/design/proxmox-simulator.md names its sources and its limits.
//
//	c := pvetest.New(t)                             // ends with the test
//	id := c.Make(pvetest.Spec{Name: "web1"})        // a guest made without the API
//	client: c.URL(), "PVEAPIToken=" + pvetest.TokenID + "=" + pvetest.Secret,
//	        c.CertPEM() as CA or c.Fingerprint() to pin
//
// If a request has a path, method, parameter, type, value or bound that is not in the schema,
// the answer is 400 or 501. The test then fails when it ends. A test that sends such requests
// on purpose calls Expect.
//
// # Errors
//
// As in the real one, the reason of an error is in the status line ("500 VM is locked
// (backup)"), and the body's data is null. A 500 does not say if anything was done.
//
// # Tasks
//
// A request that takes long answers with a UPID. The work is done at once, unless a test holds
// it:
//
//	h := c.Hold("qmdestroy")  // "" is every kind
//	<-h.Came()                // a task has begun, with its lock, and runs
//	<-h.Asked()               // somebody asked how it stands
//	h.Release()               // or h.Fail("...")
//
// # Faults
//
//	c.Break(pvetest.Rule{Method: "DELETE", Path: "/qemu/{vmid}", Fault: pvetest.DropAfter, Times: 1})
//	c.Break(pvetest.Rule{Path: "qmdestroy", Fault: pvetest.Lie}) // for Lie, Path is the kind of task
//
// The first rule that fits counts; Met, Came and Release belong to that rule. If the server
// drops a used connection, net/http sends a GET again, so such a rule may count twice.
//
// # Changes without the API
//
// These change the cluster without the API: Make, Remake (another guest under the same vmid and
// name), Remove, Set, SetProtection, SetLock, SetRunning, SetDeaf, SetNode, SetOffline,
// SetVersion, MoveDisk, Write, AddVolume, AddStorage, BackUp, DropBackup, TakeSnapshot, DropSnapshot and Revoke (privileges
// of the token).
// Freeze makes /cluster/resources stale, as the real one is for seconds. Guest, Exists, VMID,
// Volumes and Data look at the cluster and count as no request. Counts and Requests describe
// the requests.
package pvetest
