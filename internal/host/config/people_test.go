package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func TestPeople(t *testing.T) {
	c := must.Get(config.Parse("f", []byte("host: h\npeople:\n  alice@example.com: {uids: [1000, 0]}\n  bob@example.com: {uids: [4294967294]}\n"+
		"policy: {rules: [{threshold: 1, not_requester: true}, {threshold: 1, not_requester: false}, {threshold: 1}]}\n")))(t)
	require.Equal(t, policy.People{"alice@example.com": {{UID: 1000}, {UID: 0}}, "bob@example.com": {{UID: 4294967294}}}, c.Policy.People)
	require.Equal(t, []bool{true, false, false}, []bool{c.Policy.Rules[0].Apart, c.Policy.Rules[1].Apart, c.Policy.Rules[2].Apart})
	require.Nil(t, must.Get(config.Parse("f", []byte("host: h\n")))(t).Policy.People)

	c = must.Get(config.Parse("f", []byte(movable+storeHead+ownFiles+members(printA, printB)+"}\n"+
		"people: {alice@example.com: {uids: [1000@node1, 1000@node2]}}\n")))(t)
	require.Equal(t, policy.People{"alice@example.com": {{UID: 1000, Member: "node1"}, {UID: 1000, Member: "node2"}}}, c.Policy.People)
}

func TestPeopleAreRefused(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for text, want := range map[string]string{
		"people: {alice: {uids: [1000]}, bob: {uids: [1001, 1000]}}":  "f:2:52: 1000 is of alice and of bob",
		"people: {alice: {uids: [1000, 1000]}}":                       "1000 is there twice",
		"people: {alice: {uids: [1000]}, alice: {uids: [1001]}}":      "alice",
		"people: {alice: {uids: []}}":                                 "alice has no account",
		"people: {alice: {}}":                                         "alice has no account",
		"people: {alice: [1000]}":                                     "f:2:",
		"people: {alice: {uids: 1000}}":                               "f:2:",
		"people: {alice: {uids: [-1]}}":                               "f:2:",
		"people: {alice: {uids: [4294967295]}}":                       "f:2:",
		"people: {alice: {uids: [root]}}":                             `"root" is neither a uid nor UID@MEMBER`,
		"people: {alice: {uids: [1000@node2]}}":                       `"node2" is no member under store.members`,
		"people: {\"*@example.com\": {uids: [1000]}}":                 `is no principal of allowed_signers`,
		"people: {\"alice,bob\": {uids: [1000]}}":                     `is no principal of allowed_signers`,
		"people: {\"\": {uids: [1000]}}":                              `is no principal of allowed_signers`,
		"people: {alice: {uids: [1000], name: Alice}}":                "unknown key name",
		"people: {alice: {uids: [" + strings.Join(many, ", ") + "]}}": "alice has more than 64 accounts",
		"policy: {rules: [{threshold: 1, not_requester: allow}]}":     "f:2:",
	} {
		refused(t, "host: h\n"+text+"\n", want)
	}
	store := movable + storeHead + ownFiles + members(printA, printB) + "}\n"
	refused(t, store+"people: {alice: {uids: [1000]}}\n", "this gate has members, so write UID@MEMBER")
	refused(t, store+"people: {alice: {uids: [1000@node3]}}\n", `"node3" is no member under store.members`)
}
