// Package proxmox is the driver for the guests of one Proxmox VE cluster, of both
// kinds, over its API. A cluster is one host; a target's name is the guest's name.
//
// The layers, each in files of its own: transport and client (one request with a
// deadline, a bounded answer, and an error that says whether the work may have
// been done); answers, units, drive and marker (what the API's texts mean); guest
// and identity (one normal form of both kinds); above them the driver's looks and
// its operations.
//
// docs/design/proxmox-driver.md says why it is built this way, and what was never
// tried on a real Proxmox VE.
package proxmox
