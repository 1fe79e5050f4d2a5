package main

// unread asks how many bytes of a terminal were not read yet: FIONREAD of sys/filio.h.
const unread = 0x4004667f
