// Package local is the built-in driver. A guest is a directory under one root, with a data
// tree. If the operator's configuration has its command, the guest also has one process.
//
//	<root>/<name>/guest.json      what the guest is; its processes cannot write it
//	<root>/<name>/data/           what its processes may write
//	<root>/<name>/snapshots/<s>/  copies of data/
//	<root>/<name>/run.json, log   the process that was started last, and its output
//	<root>/.new-<birth>/          a guest that is being made
//	<root>/.trash/                what was destroyed, kept for a while
//
// Each layer has its own files. The lower ones are dir (one open directory, one path component
// at a time), tree (walk, copy, delete), mounts, trash, process and limits. Above them are the
// driver's look at a guest and its operations.
//
// docs/design/local-driver.md says why it is built this way.
package local
