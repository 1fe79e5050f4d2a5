package main

import (
	"fmt"
	"strings"

	"gated/internal/base/op"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// What stands on the screens of a review, and the keys below.

const wordsReviewMore = "more: space   a approve  r reject  s skip  m mark  d details  q quit  ? help "

const wordsReviewKeys = "a approve  r reject  s skip  m mark  b back  d details  q quit  ? help "

// wordsReviewGroup is for a request that others are like; it fits into 79 columns.
const wordsReviewGroup = "a approve  r reject  s skip  m mark  g all  b back  d details  q quit  ? help "

// textOf shows an item with what its operator wants to see.
func (r *review) textOf(it *item) string {
	v := r.view(it.details)
	v.More = "d"
	return it.shown.Text(v)
}

// turnDetails shows the details of an item, from their first line on, or takes them
// away again.
func (r *review) turnDetails(it *item, pages *pager) {
	it.details = !it.details
	text, top := r.textOf(it), 0
	if it.details {
		before, _, _ := strings.Cut(text, question.Binds)
		top = len(cli.Wrapped(before, pages.cols-1))
	}
	pages.turn(text, top)
}

const wordsAnyKey = "any key: back "

func (r *review) help() error {
	_, err := r.pager("", `Each screen is one request. What it shows is what is signed, with what would be lost.

  a      approve it: sign it, and see what becomes of it
  r      reject it; asks for the reason
  s, n   skip it, and leave it waiting
  m      mark it; a then shows all that are marked, and signs each of them
         by itself once you say y
  g      all that ask for the same operation with the same parameters, shown
         once with their differences; y then signs each of them by itself
  b      back to the one before
  d      the details: ids, hashes and times that the signature binds
  space  the next page; up and down keys page too
  q      quit; what is not decided goes on waiting

What cannot be undone is signed once you type the name of its target. Nothing is
approved before all of its pages were shown. A request that changes
while you look at it is shown again.
`, [2]string{wordsAnyKey, wordsAnyKey}).key(&r.message)
	return err
}

// heading says which of the requests this is.
func (r *review) heading(it *item) string {
	mark, marks := "", ""
	if it.marked {
		mark = ", marked"
	}
	if n := len(r.marked()); n > 0 {
		marks = fmt.Sprintf(" (%d marked)", n)
	}
	return fmt.Sprintf("%d of %d%s%s", r.indexOf(it)+1, len(r.items), mark, marks)
}

const wordsReviewStop = "r stop it  s skip  b back  d details  q quit  ? help "

// keysOf returns the keys of an item's last page, and of those before.
func (r *review) keysOf(it *item) [2]string {
	if it.shown.Request.State != op.StatePending {
		return [2]string{wordsReviewStop, wordsReviewStop}
	}
	if len(r.alike(it)) > 1 {
		return [2]string{wordsReviewGroup, wordsReviewMore}
	}
	return [2]string{wordsReviewKeys, wordsReviewMore}
}
