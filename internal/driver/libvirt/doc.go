// Package libvirt is the driver of guests that are domains of a libvirtd, over its unix socket.
// A guest's identity is the domain's UUID, a generation that this driver wrote into the
// domain's metadata, and its disks. A caller who may define domains can copy a name, a UUID and
// metadata.
package libvirt
