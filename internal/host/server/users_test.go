package server

import (
	"math"
	"os"
	"os/user"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// TestUsersHaveTheNamesOfThisHost: only who calls by a uid of this host has a name. An agent, another member's user, a set and a uid without
// an account have none.
func TestUsersHaveTheNamesOfThisHost(t *testing.T) {
	root := must.Get(user.LookupId("0"))(t)
	require.Equal(t, map[string]string{"uid:0": root.Username}, users([]op.Requester{
		{Source: op.SourceAPI, UID: 0}, {Source: op.SourceAPI, UID: 0, Set: "node2"}, {Source: op.SourceAPI, UID: 0, Agent: "builder#1"},
		{Source: op.SourceDesired, Set: "web"}, {Source: op.SourceHub, Set: "hub"}, {Source: op.SourceGate}, {Source: op.SourceAPI, UID: math.MaxUint32 - 1}}))
	require.NotContains(t, users([]op.Requester{{Source: op.SourceAPI, UID: math.MaxUint32 - 1}}), "uid:"+strconv.Itoa(math.MaxUint32-1))
	require.Empty(t, users(nil))
}

// TestOneRequestHasTheNamesOfItsUsers: this host's name for the test's own user, and no name in a list, which would look up many.
func TestOneRequestHasTheNamesOfItsUsers(t *testing.T) {
	w := start(t, -1, nil)
	w.do(t, "POST", "/v1/jobs", `{"op":"guest.destroy","target":"guest/old","params":{},"reason":"old"}`)
	var r api.Request
	w.do(t, "GET", "/v1/requests/j11.1", "").into(t, 200, &r)
	uid, names := strconv.Itoa(os.Geteuid()), map[string]string{}
	if me, err := user.LookupId(uid); err == nil {
		names["uid:"+uid] = me.Username
	}
	require.Equal(t, names, r.Users)
	require.Equal(t, []string{"uid:" + uid}, r.RequestedBy)
	require.Contains(t, string(w.do(t, "GET", "/v1/requests", "").body), `"users":{}`)
	require.NotContains(t, string(w.do(t, "GET", "/v1/requests", "").body), `"users":{"`)
}
