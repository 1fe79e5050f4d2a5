package server

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/openapi"
)

// docs/formats/openapi.yaml has every route, its query parameters and whether it takes a body, and no other route.
func TestEveryRouteIsDescribed(t *testing.T) {
	var routes []openapi.Operation
	for _, r := range New(Config{}).table() {
		o := openapi.Operation{Method: r.method, Path: r.path, Query: slices.Sorted(slices.Values(r.query)), Body: r.body > 0}
		routes = append(routes, o)
	}
	require.ElementsMatch(t, routes, must.Get(openapi.Read())(t).Operations())
}
