// Package proxmox is the driver for the guests of one Proxmox VE cluster, machines and
// containers, over its API. The gate treats a cluster as one host. A target's name is the
// guest's name.
//
// Each layer has its own files. transport and client send one request with a deadline, bound
// the answer, and say in the error if the work may be done. answers, units, drive and marker
// read the API's texts. guest and identity give machines and containers one normal form. Above
// them are the driver's looks and operations.
//
// docs/design/proxmox-driver.md says why it is built this way. It also lists what was never
// tried on a real Proxmox VE.
package proxmox
