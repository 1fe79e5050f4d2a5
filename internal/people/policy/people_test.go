package policy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
)

// crew has an account of another member, whose number is bob's here.
var crew = policy.People{"alice@example.com": {{UID: 1000}, {UID: 2000}}, "bob@example.com": {{UID: 1001}},
	"erin@example.com": {{UID: 1001, Member: "node2"}}}

func TestWhoIsApartFromTheRequesters(t *testing.T) {
	by := func(uid uint32) op.Requester { return op.Requester{Source: op.SourceAPI, UID: uid} }
	agent := op.Requester{Source: op.SourceAPI, UID: 2000, Agent: "builder#1"}
	far := op.Requester{Source: op.SourceAPI, UID: 1001, Set: "node2"}
	desired, gate := op.Requester{Source: op.SourceDesired, Set: "web"}, op.Requester{Source: op.SourceGate}
	offline, relayed := op.Requester{Source: op.SourceOffline, UID: 1001}, op.Requester{Source: op.SourceHub, Set: "hub.example.com"}
	const alice, bob, mallory = "alice@example.com", "bob@example.com", "mallory@example.com"
	for _, c := range []struct {
		name    string
		who     string
		by      []op.Requester
		refused string // in the words; empty if the signature counts
	}{
		{name: "another person asked", who: alice, by: []op.Requester{by(1001)}},
		{name: "the same person asked", who: alice, by: []op.Requester{by(1000)}, refused: "asked for this as uid:1000"},
		{name: "the person's agent asked", who: alice, by: []op.Requester{agent}, refused: "asked for this as agent:builder#1"},
		{name: "the person asked, too", who: alice, by: []op.Requester{by(1001), by(1000)}, refused: "asked for this as uid:1000"},
		{name: "the person asked, too, first", who: alice, by: []op.Requester{by(1000), by(1001)}, refused: "asked for this as uid:1000"},
		{name: "the person's agent repeats what desired state wants", who: alice, by: []op.Requester{desired, agent}, refused: "asked for this"},
		{name: "the signer is not named", who: mallory, by: []op.Requester{by(1001)}, refused: "the accounts of mallory@example.com are not known"},
		{name: "another letter's case", who: "Alice@example.com", by: []op.Requester{by(1001)}, refused: "are not known"},
		{name: "no name", who: "", by: []op.Requester{by(1001)}, refused: "are not known"},
		{name: "the requester is not named", who: alice, by: []op.Requester{by(1005)}, refused: "not known which other person"},
		{name: "root asked, and is not named", who: alice, by: []op.Requester{by(0)}, refused: "not known which other person"},
		{name: "an account that is not named asked, too", who: alice, by: []op.Requester{by(1005), by(1001)}},
		{name: "nobody asked", who: alice, refused: "not known which other person"},
		{name: "desired state, which any operator may put", who: alice, by: []op.Requester{desired}, refused: "not known which other person"},
		{name: "another person wishes what desired state does", who: alice, by: []op.Requester{desired, by(1001)}},
		{name: "the gate", who: alice, by: []op.Requester{gate}, refused: "not known which other person"},
		{name: "the person handed in a signed payload, and another one asked for the same", who: alice,
			by: []op.Requester{{Source: op.SourceOffline, UID: 1000}, by(1001)}, refused: "asked for this as uid:1000"},
		{name: "a payload signed before", who: alice, by: []op.Requester{offline}, refused: "not known which other person"},
		{name: "a payload signed before, that a hub relayed", who: alice, by: []op.Requester{relayed}, refused: "not known which other person"},
		{name: "the same uid of another member is another person", who: bob, by: []op.Requester{far}},
		{name: "the uid of another member", who: "erin@example.com", by: []op.Requester{far}, refused: "asked for this as uid:1001@node2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := crew.Apart(c.who, c.by)
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, refusal.NotAllowed)
			require.ErrorContains(t, err, c.refused)
			require.ErrorIs(t, policy.People(nil).Apart(c.who, c.by), refusal.NotAllowed, "without the map")
		})
	}
}

// A CA's line has a pattern, or one name, and people sign with what it certified.
func TestWhoCouldSignByACertificate(t *testing.T) {
	bob := []op.Requester{{Source: op.SourceAPI, UID: 1001}}
	for name, could := range map[string]bool{"alice@example.com (certificate)": true, "bob@example.com (certificate)": false, "mallory@example.com (certificate)": false,
		"*@example.com (certificate)": true, "alice@example.com": true, "bob@example.com": false} {
		require.Equal(t, could, crew.Could(name, bob), name)
		require.False(t, crew.Could(name, nil), name)
	}
}

// A person never counts for what one of the person's accounts asked, whoever else asks.
func TestNoRequesterIsApart(t *testing.T) {
	anyone := rapid.Custom(func(t *rapid.T) op.Requester {
		return op.Requester{Source: rapid.SampledFrom([]op.Source{op.SourceAPI, op.SourceDesired, op.SourceOffline, op.SourceHub, op.SourceGate}).Draw(t, "source"),
			UID:   rapid.SampledFrom([]uint32{0, 1000, 1001, 1002, 2000}).Draw(t, "uid"),
			Agent: rapid.SampledFrom([]string{"", "builder#1"}).Draw(t, "agent"),
			Set:   rapid.SampledFrom([]string{"", "node2"}).Draw(t, "set")}
	})
	rapid.Check(t, func(t *rapid.T) {
		by := rapid.SliceOf(anyone).Draw(t, "by")
		who := rapid.SampledFrom([]string{"alice@example.com", "bob@example.com", "erin@example.com", "mallory@example.com"}).Draw(t, "who")
		mine := slices.ContainsFunc(by, func(r op.Requester) bool {
			return (r.Source == op.SourceAPI || r.Source == op.SourceOffline) && slices.Contains(crew[who], r.Account())
		})
		if crew.Apart(who, by) == nil {
			require.False(t, mine)
			require.Contains(t, crew, who)
			require.NotEmpty(t, by)
		}
		if mine {
			more := slices.Insert(slices.Clone(by), rapid.IntRange(0, len(by)).Draw(t, "place"), anyone.Draw(t, "more"))
			require.ErrorIs(t, crew.Apart(who, more), refusal.NotAllowed)
		}
	})
}
