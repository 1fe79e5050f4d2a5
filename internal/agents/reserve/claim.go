package reserve

import (
	"cmp"
	"crypto/sha256"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/internal/agents/glob"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Claim is what a requester wants to reserve. An empty Mode is Exclusive, a TTL of 0 the default, a Wait of 0 no wait.
type Claim struct {
	By       op.Requester
	Place    Place
	Patterns []string
	Mode     Mode
	TTL      time.Duration
	Keep     bool
	Wait     time.Duration
	Reason   string
}

// region is a set of paths: patterns, read relative to a place.
type region struct {
	path     string // Place.Key
	names    Names  // empty for what is in the tables
	fold     bool
	patterns []pattern
	sum      []byte // digest, if it was made
}

// pattern is one pattern of a region.
type pattern struct {
	glob.Pattern
	asked  string // as it was written
	prefix string // see prefixOf
}

// wish is a claim whose form was checked.
type wish struct {
	by     op.Requester
	holder Holder
	place  Place
	mode   Mode
	region

	ttl    time.Duration
	keep   bool
	reason string

	known *survey          // of the region
	skip  op.ReservationID // the reservation that is transferred, which does not count
}

// readClaim checks the form of a claim: every check that needs no database.
func readClaim(c Claim) (*wish, error) {
	ttl, err := checkTTL(c.TTL)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Wait < 0 || c.Wait > MaxWait:
		return nil, refusal.New(refusal.BadParams, "a wait of %v is outside 0 to %v", c.Wait, MaxWait).
			WithHint("give a time up to 24h, as in 10m; none at all is no wait")
	case len(c.Reason) > op.MaxReason:
		return nil, refusal.New(refusal.BadParams, "a reason of %d bytes is longer than %d", len(c.Reason), op.MaxReason).
			WithHint("give a shorter one")
	}
	if err := op.CheckText("the reason", c.Reason); err != nil {
		return nil, err
	}
	w, err := readWish(c.By, c.Place, c.Patterns, c.Mode, MaxPatterns)
	if err != nil {
		return nil, err
	}
	w.ttl, w.keep, w.reason = ttl, c.Keep, c.Reason
	w.sum = w.digest()
	return w, w.light()
}

// readWish checks the requester, the place and the patterns of a claim.
func readWish(by op.Requester, p Place, patterns []string, m Mode, limit int) (*wish, error) {
	holder, err := holderOf(by)
	if err != nil {
		return nil, err
	}
	if m == "" {
		m = Exclusive
	}
	if m != Exclusive && m != Shared {
		return nil, refusal.New(refusal.BadParams, "the mode %.20q is neither %s nor %s", string(m), Exclusive, Shared).
			WithHint("give one of them, or none for exclusive")
	}
	if err := checkPath(p.Path); err != nil {
		return nil, err
	}
	switch {
	case len(patterns) == 0:
		return nil, refusal.New(refusal.BadParams, "no pattern was given").WithHint("write ** for everything in the scope")
	case len(patterns) > limit:
		return nil, refusal.New(refusal.OverLimit, "%d patterns are more than %d", len(patterns), limit).
			WithHint("use wildcards, or ask several times")
	}
	names := Names{Path: p.Path}
	if p.Names != nil {
		names, p.Names = *p.Names, nil
	}
	w := &wish{by: by, holder: holder, place: p, mode: m, region: region{path: p.Key(), names: names, fold: p.Fold}, known: new(survey)}
	for _, text := range patterns {
		if err := w.add(text); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(w.patterns, func(a, b pattern) int { return strings.Compare(a.String(), b.String()) })
	w.patterns = slices.CompactFunc(w.patterns, func(a, b pattern) bool { return a.String() == b.String() })
	return w, nil
}

// add reads a pattern, unless the region has it already. An absolute one may be below the scope.
func (r *region) add(text string) error {
	p, err := glob.Parse(text, glob.Options{Scope: cmp.Or(r.names.Path, PlaceOf(r.path).Path), FoldCase: r.fold})
	if err != nil {
		return err
	}
	if err := r.reaches(p, text); err != nil {
		return err
	}
	r.patterns = append(r.patterns, pattern{Pattern: p, asked: text, prefix: prefixOf(r.path, p)})
	return nil
}

// reaches refuses a pattern that matches something in a shared scope below the place: other members name that otherwise, so
// the claim would not be compared with theirs.
func (r *region) reaches(p glob.Pattern, text string) error {
	for _, dir := range r.names.Shared {
		for _, into := range []string{glob.Quote(dir), glob.Quote(dir) + "/**"} {
			q, err := glob.Parse(into, glob.Options{FoldCase: r.fold})
			if err != nil {
				return err
			}
			left := int64(smallWork)
			if overlap, known := glob.OverlapWithin(p, "", q, &left); overlap || !known {
				return refusal.New(refusal.BadParams, "the pattern %.80q reaches into %s, which is a shared scope of several members", text, dir).
					WithHint("reserve in that directory itself: --scope DIR")
			}
		}
	}
	return nil
}

// texts returns the patterns as they were understood, sorted.
func (r region) texts() []string {
	out := make([]string, len(r.patterns))
	for i, p := range r.patterns {
		out[i] = p.String()
	}
	return out
}

// digest returns the same bytes for the same set of patterns, and other bytes for another set.
func (r region) digest() []byte {
	if r.sum != nil {
		return r.sum
	}
	h := sha256.New()
	h.Write(strconv.AppendBool(nil, r.fold))
	for _, p := range r.patterns {
		h.Write([]byte{0}) // no pattern has one
		h.Write([]byte(p.String()))
	}
	return h.Sum(nil)
}

// checkTTL refuses a time to live outside its limits; 0 is the default.
func checkTTL(ttl time.Duration) (time.Duration, error) {
	switch {
	case ttl == 0:
		return DefaultTTL, nil
	case ttl < MinTTL || ttl > MaxTTL:
		return 0, refusal.New(refusal.BadParams, "a time to live of %v is outside %v to %v", ttl, MinTTL, MaxTTL).
			WithHint("give a time from 10s to 24h, as in 30m; none at all is 15m")
	}
	return ttl, nil
}

// checkPath refuses a path that is not absolute, or not clean, or has characters that do not print: people could not
// tell it from another.
func checkPath(p string) error {
	if len(p) > MaxPath {
		return refusal.New(refusal.BadParams, "the scope's path of %d bytes is longer than %d", len(p), MaxPath).
			WithHint("give a directory further up, and patterns below it")
	}
	if err := op.CheckText("the scope's path", p); err != nil {
		return err
	}
	if !path.IsAbs(p) || path.Clean(p) != p {
		return refusal.New(refusal.BadParams, "the scope %q is no absolute path without detours", p).
			WithHint("give the directory's path as realpath(1) prints it")
	}
	return nil
}

// holderOf returns a requester as a holder of reservations.
func holderOf(by op.Requester) (Holder, error) {
	if by.Source == op.SourceDesired || by.Source == op.SourceGate {
		return Holder{}, refusal.New(refusal.NotAllowed, "%s reserves nothing", by)
	}
	h := Holder{Name: op.AgentName(by.Agent), UID: by.UID, Member: by.Account().Member}
	if h.Name == "" {
		return h, nil
	}
	_, number, _ := strings.Cut(by.Agent, "#")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 {
		return Holder{}, refusal.New(refusal.NotHolder, "%.200q is not one registration of an agent", by.Agent)
	}
	h.Registration = n
	return h, nil
}

// prefixOf returns the longest known path such that everything a pattern matches is it or below it, with case folded.
// If two patterns of any scopes match one path, both prefixes are that path, folded, or above it. So one prefix is the
// other or above it.
func prefixOf(scope string, p glob.Pattern) string {
	return glob.Folded(path.Join(scope, p.Literal()))
}

// isPath reports whether a pattern is exactly one path. Then nothing below that path can overlap it.
func (p pattern) isPath() bool {
	path := glob.Quote(p.Literal())
	return p.String() == path || glob.Folded(p.String()) == path // the Literal of one that ignores case is folded
}

// ancestors returns an absolute path and all paths above it.
func ancestors(p string) []string {
	out := []string{p}
	for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
		out = append(out, p[:i])
	}
	if p != "/" {
		out = append(out, "/")
	}
	return out
}

// below returns two bounds; all paths below p sort between them, because "0" is the byte after "/". No path equals a
// bound, except "/".
func below(p string) (after, before string) {
	p = strings.TrimSuffix(p, "/")
	return p + "/", p + "0"
}

// related reports whether one absolute path is the other or above it.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
}

// meet reports whether two patterns match one path, each read in its own region. known is false if that takes more work
// than is left.
func meet(r region, p glob.Pattern, o region, q glob.Pattern, left *int64) (overlap, known bool) {
	*left -= workOfPair
	if r.isAt(o) {
		return glob.OverlapWithin(p, "", q, left)
	}
	if dir, ok := r.holds(o); ok {
		return glob.OverlapWithin(p, dir, q, left)
	}
	if dir, ok := o.holds(r); ok {
		return glob.OverlapWithin(q, dir, p, left)
	}
	return false, true
}

// isAt reports whether two regions are relative to one directory. If both ignore case, two spellings of its path are
// one directory.
func (r region) isAt(o region) bool {
	return r.path == o.path || r.fold && o.fold && glob.Folded(r.path) == glob.Folded(o.path)
}

// holds returns the other's directory relative to this one's, if it is below.
func (r region) holds(o region) (dir string, ok bool) {
	own := strings.TrimSuffix(r.path, "/")
	at := 0 // of the "/" after as many names in the other's path
	for range strings.Count(own, "/") {
		i := strings.IndexByte(o.path[at+1:], '/')
		if i < 0 {
			return "", false
		}
		at += 1 + i
	}
	dir, head := o.path[at+1:], o.path[:at]
	if dir == "" || head != own && !(r.fold && glob.Folded(head) == glob.Folded(own)) {
		return "", false
	}
	return dir, true
}
