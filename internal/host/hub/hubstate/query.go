package hubstate

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The rows of one page of the queue.
const (
	PageRows    = 100  // if the query does not say
	MaxPageRows = 1000 // at most
)

// Query chooses what waits. The zero value, with a limit, is the first page over all hosts.
type Query struct {
	Host  string // empty for all
	Op    string // empty for all
	After *Place // continues after this row; nil for the first page
	Limit int    // rows, from 1 to MaxPageRows
}

// Place is a row's place in the queue, which is sorted by these members in turn.
type Place struct {
	At      int64 // microseconds since 1970
	Host    string
	Request string
}

// PlaceOf returns the place of a row.
func PlaceOf(r api.FleetRow) Place { return Place{r.CreatedAt.UnixMicro(), r.Host, r.Request} }

// Compare compares two places.
func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(p.At, o.At), bytes.Compare([]byte(p.Host), []byte(o.Host)), bytes.Compare([]byte(p.Request), []byte(o.Request)))
}

// String writes a place as ParsePlace reads it.
func (p Place) String() string {
	return strconv.FormatInt(p.At, 10) + "." + hex.EncodeToString([]byte(p.Host)) + "." + hex.EncodeToString([]byte(p.Request))
}

// maxPlace is the longest text of a place, in bytes.
const maxPlace = 1024

// ParsePlace reads what String wrote. Any other text is BadParams.
func ParsePlace(s string) (p Place, err error) {
	at, rest, _ := strings.Cut(s, ".")
	host, request, found := strings.Cut(rest, ".")
	p.At, err = strconv.ParseInt(at, 10, 64)
	h, badHost := hex.DecodeString(host)
	r, badRequest := hex.DecodeString(request)
	p.Host, p.Request = string(h), string(r)
	if len(s) > maxPlace || !found || err != nil || badHost != nil || badRequest != nil || p.String() != s {
		return Place{}, refusal.New(refusal.BadParams, "%q is no place in the queue", op.Shown(s[:min(len(s), 80)])).
			WithHint("continue with the next of the page before")
	}
	return p, nil
}

// RowOf returns the line of the queue for a request of a host's last report.
func RowOf(a Arrived, r api.FleetRequest) api.FleetRow {
	return api.FleetRow{Host: a.Host, Gate: a.Report.Gate, ReportedAt: a.At.UTC().Truncate(time.Microsecond), FleetRequest: r}
}
