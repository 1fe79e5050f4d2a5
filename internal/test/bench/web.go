package bench

// webRows are the figures of the pages over 50 gates.
var webRows = []figureRow{
	{"first page p50", "console of 50 gates with 20 requests each: first page, p50", milliseconds, 100, "over http, one browser"},
	{"first page p95", "  first page, p95", milliseconds, 100, ""},
	{"a later page p50", "  a later page, p50", milliseconds, 0, ""},
	{"request p50", "  a request, p50", milliseconds, 100, "its gate is asked who it is, for the request, and for the bytes"},
	{"request p95", "  a request, p95", milliseconds, 100, ""},
}

// web measures the pages of a console.
func (b *bench) web() error {
	return b.ofTests("gated/internal/web/page", "TestManyGates", "GATED_PAGES", "50", webRows)
}
