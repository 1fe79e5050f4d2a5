package main

import "golang.org/x/sys/unix"

// unread asks how many bytes of a terminal were not read yet.
const unread = unix.TIOCINQ
