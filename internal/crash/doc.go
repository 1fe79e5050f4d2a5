// Package crash has no code of its own. Its tests kill the real daemon with
// SIGKILL at random moments of a story with real guests and real signatures,
// start it again, and check what must hold whatever the moment was: gated fsck
// finds the state sound, nothing that was acknowledged is lost, no destructive
// step was dispatched twice, no approval counts again, and every guest is there
// as it was, or in the trash because somebody approved it.
package crash
