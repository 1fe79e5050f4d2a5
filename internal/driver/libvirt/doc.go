// Package libvirt is the driver of guests that are domains of a libvirtd, over
// its unix socket. A guest is who it is by the domain's UUID, by a generation
// that this driver wrote into the domain's metadata, and by its disks: a name, a
// UUID and metadata can all be written again by anybody who may define a domain.
package libvirt
