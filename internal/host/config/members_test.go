package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/test/must"
)

var (
	printA = strings.Repeat("AA:", 31) + "AA"
	printB = strings.Repeat("BB:", 31) + "BB"
)

const storeHead = "store: {postgres: \"host=db\", member: node1, "

func members(a, b string) string {
	return "members: {node1: {address: \"192.0.2.1:7480\", fingerprint: \"" + a + "\"}, node2: {address: \"192.0.2.2:7480\", fingerprint: \"" + b + "\"}}"
}

const ownFiles = "listen: \":7480\", certificate: /c, key: /k, "

func TestMembers(t *testing.T) {
	c := must.Get(config.Parse("f", []byte(movable+storeHead+ownFiles+members(printA, printB)+"}\n"+
		"admins: [root, 1000, 1000@node2, 7@node1]\nsubmitters: [5@node2]\n")))(t)
	require.Equal(t, map[string]config.Member{"node1": {"192.0.2.1:7480", printA}, "node2": {"192.0.2.2:7480", printB}}, c.Store.Members)
	require.Equal(t, ":7480", c.Store.Listen)
	require.Equal(t, []uint32{0, 1000, 7}, c.Admins, "a uid of this member is one of this host")
	require.Empty(t, c.OldWords)
	require.Equal(t, []op.Account{{UID: 1000, Member: "node2"}}, c.Elsewhere.Admins)
	require.False(t, c.AnySubmitter)
	require.Empty(t, c.Submitters)
	require.Equal(t, []op.Account{{UID: 5, Member: "node2"}}, c.Elsewhere.Submitters)
}

func TestMembersAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		storeHead + ownFiles + "}\n":                                                                                   "for a gate with members that forward",
		storeHead + members(printA, printB) + "}\n":                                                                    "listen is missing",
		storeHead + ownFiles + members(printA, strings.ToLower(printA)) + "}\n":                                        "the same fingerprint",
		storeHead + ownFiles + members("AA", printB) + "}\n":                                                           "32 pairs of hex digits",
		strings.Replace(storeHead, "node1", "node3", 1) + ownFiles + members(printA, printB) + "}\n":                   "members lacks this one, node3",
		storeHead + ownFiles + strings.ReplaceAll(members(printA, printB), "192.0.2.2:7480", "192.0.2.1:7480") + "}\n": "the same address",
		storeHead + ownFiles + strings.ReplaceAll(members(printA, printB), "192.0.2.2", "") + "}\n":                    "has no host",
		storeHead + ownFiles + strings.ReplaceAll(members(printA, printB), ":7480", ":0") + "}\n":                      "not host:port",
		storeHead + ownFiles + members(printA, printB) + "}\nadmins: [1@node3]\n":                                      "no member under store.members",
		storeHead + ownFiles + members(printA, printB) + "}\nadmins: [alice@node2]\n":                                  "neither a uid nor UID@MEMBER",
		"admins: [1@node2]\n": "no member under store.members",
	} {
		_, err := config.Parse("f", []byte(movable+text))
		require.ErrorIs(t, err, refusal.Malformed, text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestSharedScopes(t *testing.T) {
	head := storeHead + ownFiles + members(printA, printB) + ", scopes: "
	c := must.Get(config.Parse("f", []byte(movable+head+"{web: {node1: /srv/web, node2: /mnt/web}, doc: {node1: /srv/doc, node2: /srv/web}}}\n")))(t)
	require.Equal(t, map[string]map[string]string{"web": {"node1": "/srv/web", "node2": "/mnt/web"}, "doc": {"node1": "/srv/doc", "node2": "/srv/web"}}, c.Store.Scopes)
	for text, want := range map[string]string{
		"{web: {node1: /srv/web, node3: /mnt/web}}":                                      "node3 is no member under store.members",
		"{web: {node1: /srv/web}}":                                                       "is of 1 members",
		"{web: {}}":                                                                      "is of 0 members",
		"{web: {node1: srv, node2: /mnt/web}}":                                           "not an absolute path",
		"{web: {node1: /srv/, node2: /mnt/web}}":                                         "not an absolute path",
		"{node2: {node1: /srv, node2: /mnt/web}}":                                        "cannot have the name node2",
		"{web: {node1: /a, node2: /b}, Web: {node1: /c, node2: /d}}":                     "cannot have the name",
		"{web: {node1: /srv/web, node2: /mnt/a}, doc: {node1: /srv/web, node2: /mnt/b}}": "one in the other",
		"{web: {node1: /srv/web, node2: /mnt/a}, doc: {node1: /srv/web/d, node2: /mnt}}": "one in the other",
		"{web: {node1: /srv/web, node2: /mnt/a}, doc: {node1: /, node2: /mnt/b}}":        "one in the other",
		"{web: {node1: /a, node1: /b, node2: /c}}":                                       "twice",
		"{\"a b\": {node1: /a, node2: /c}}":                                              "is not a name",
		"[web]":                                                                          "",
	} {
		_, err := config.Parse("f", []byte(movable+head+text+"}\n"))
		require.ErrorIs(t, err, refusal.Malformed, text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := config.Parse("f", []byte(movable+storeHead+"scopes: {web: {node1: /a, node2: /b}}}\n"))
	require.ErrorContains(t, err, "for a gate with members")
}

// The word of an earlier version is read, and said.
func TestTheOldWordForAdmins(t *testing.T) {
	now := must.Get(config.Parse("f", []byte("host: h\nadmins: [7, 8]\n")))(t)
	old := must.Get(config.Parse("f", []byte("host: h\noperators: [7, 8]\n")))(t)
	require.Equal(t, []string{"operators is called admins now: rename it, because a later version refuses it"}, old.OldWords)
	old.OldWords = nil
	require.Equal(t, now, old)
	require.Equal(t, []uint32{7, 8}, now.Admins)
}
