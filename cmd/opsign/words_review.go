package main

import "gated/internal/op"

// Words of what is shown before somebody signs, and of review. Those that end a
// line have its end.
const (
	wordsSince        = "  waits since %s (%s)"
	wordsLeft         = "; what is signed now counts for %s more\n"
	wordsSignedToo    = "  the signature binds as well:\n"
	wordsNoneLeft     = "; its payload is over and will be issued anew\n"
	wordsListHead     = "ID\tSTATE\tOP\tTARGET\tFOR\tEXPIRES\tSIGNED\tNEEDS\tREASON"
	wordsStillMissing = "%s still waits for signatures\n"
)

// Words of review itself.
const (
	wordsNoTerminal    = "there is no terminal to review on; instead: opsign list, then opsign approve ID --yes"
	wordsTooSmall      = "the terminal is too small to review on: make it larger"
	wordsReviewHead    = "%d of %d%s%s"
	wordsReviewMarked  = ", marked"
	wordsReviewMarks   = " (%d marked)"
	wordsReviewPart    = ", lines %d to %d of %d"
	wordsReviewKeys    = "a approve  r reject  s skip  m mark  b back  q quit  ? help "
	wordsReviewMore    = "more: space   then a approve  r reject  s skip  m mark  q quit  ? help "
	wordsReviewStop    = "r stop it  s skip  b back  q quit  ? help "
	wordsBatchKeys     = "y sign each of these  b back, sign none  q quit "
	wordsBatchMore     = "more: space   b back, sign none  q quit "
	wordsAnyKey        = "any key: back "
	wordsBatchHead     = "Approve these %d, each with a signature of its own?"
	wordsBatchItem     = "%s: %s of %s, for %s\n"
	wordsBatchParams   = "  params: %s\n"
	wordsBatchReason   = "  reason: %s\n"
	wordsReadFirst     = "there is more to read: space shows it\n"
	wordsAllRead       = "that is all of it\n"
	wordsChanged       = "%s changed while you looked, and nothing was signed: this is how it is now\n"
	wordsMoving        = "only counts, sizes and times move: once you have read it again, they hold up no signature\n"
	wordsOnlyStop      = "it is authorized already; r stops it\n"
	wordsNoMore        = "there is none before it\n"
	wordsUnknownKey    = "? shows the keys\n"
	wordsWhyReject     = "Why do you reject %s? (an empty line: do not) "
	wordsNotRejected   = "not rejected\n"
	wordsSigning       = "signing %s as %s\n"
	wordsReviewOutcome = "%s: %s\n"

	wordsOutSkipped = "skipped"
	wordsOutLeft    = "not decided"
	wordsOutMarked  = "marked, not signed"
	wordsOutGone    = "%s already"
	wordsOutReject  = "rejected"
	wordsOutMissing = "signed; needs %s"
	wordsRefusedAs  = "%s: %s"
)

const wordsReviewHelp = `Each screen is one request. What it shows is what is signed, with what would be lost.

  a      approve it: sign it, and see what becomes of it
  r      reject it; asks for the reason
  s, n   skip it, and leave it waiting
  m      mark it; a then shows all that are marked, and signs each of them
         by itself once you say y
  b      back to the one before
  space  the next page; up and down keys page too
  q      quit; what is not decided goes on waiting

Nothing is approved before all of its pages were shown. A request that changes
while you look at it is shown again.
`

func changedRefusal(id string) error {
	return op.Refuse(op.StaleTarget, "%s changed after it was shown, and was not signed", id).
		WithHint("read it again: opsign review, or opsign approve %s", id)
}
