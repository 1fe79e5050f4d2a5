package cli

import (
	"fmt"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
)

// Requester returns a requester as it may stand inside a line of ours, with the name of its user beside a uid if the gate
// gave one that may be shown: "uid:1000 (alice)" (see op.Beside).
func Requester(by string, users api.Users) string { return Inline(op.Beside(by, users)) }

// Requesters returns several of them, with a text between two.
func Requesters(by []string, users api.Users, between string) string {
	out := make([]string, len(by))
	for i, one := range by {
		out[i] = Requester(one, users)
	}
	return strings.Join(out, between)
}

// maxReasons is how many requesters' reasons are shown one by one.
const maxReasons = 8

// Reasons says in lines why each requester asks, in the requester's own words. first is
// the first requester's reason, which is signed. If it is no present requester's, it has
// a line of its own.
func Reasons(indent, first string, all []api.Reason, users api.Users) string {
	said := func(text string) string {
		if text == "" {
			return "none given"
		}
		return Quoted(text)
	}
	if len(all) == 0 || len(all) == 1 && all[0].Text == first {
		return indent + "reason of the requester: " + said(first) + "\n"
	}
	var b strings.Builder
	if first != "" && !slices.ContainsFunc(all, func(r api.Reason) bool { return r.Text == first }) {
		fmt.Fprintf(&b, "%sreason that is signed: %s\n", indent, said(first))
	}
	for _, r := range all[:min(len(all), maxReasons)] {
		fmt.Fprintf(&b, "%sreason of %s: %s\n", indent, Requester(r.By, users), said(r.Text))
	}
	if more := len(all) - maxReasons; more > 0 {
		fmt.Fprintf(&b, "%sreasons of %d more requesters: --json has them\n", indent, more)
	}
	return b.String()
}

// ReasonsInLine is Reasons for a cell of a list, which the caller makes safe to print
// (see Row). The words of several requesters are in quotes, so that none can pass for
// another one's. The words of one requester are in quotes if they have a quote: else
// they could look like those of several.
func ReasonsInLine(first string, all []api.Reason, users api.Users) string {
	if len(all) < 2 {
		if strings.Contains(first, `"`) {
			return Quoted(first)
		}
		return first
	}
	var said []string
	for _, r := range all[:min(len(all), maxReasons)] {
		if r.Text != "" {
			said = append(said, Requester(r.By, users)+": "+Quoted(r.Text))
		}
	}
	if len(all) > maxReasons {
		said = append(said, "...")
	}
	return strings.Join(said, "; ")
}

// maxRejections is how many rejections are shown one by one, unless the details are asked for.
const maxRejections = 3

// Rejections says how often operators rejected other requests for the same wish, by whom
// and why. It is empty if they rejected none.
func Rejections(indent string, r api.Request, details bool) string {
	if r.TimesRejected == 0 {
		return ""
	}
	newest := r.Rejections
	if !details {
		newest = newest[:min(len(newest), maxRejections)]
	}
	times := fmt.Sprintf("%d times", r.TimesRejected)
	if r.TimesRejected == 1 {
		times = "once"
	}
	if len(newest) < r.TimesRejected {
		times += ", the last ones"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%sthe same was rejected %s:\n", indent, times)
	for _, n := range newest {
		words := "no words given"
		if n.Words != "" {
			words = Quoted(n.Words)
		}
		fmt.Fprintf(&b, "%s  %s at %s by %s, asked by %s: %s\n", indent, Inline(n.Request), Moment(n.At), People(n.By),
			asking(n.RequestedBy, r.Users), words)
	}
	return b.String()
}

// asking names requesters, at most a few.
func asking(who []string, users api.Users) string {
	names := make([]string, 0, maxRejections)
	for _, name := range who[:min(len(who), maxRejections)] {
		names = append(names, Requester(name, users))
	}
	if more := len(who) - maxRejections; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
