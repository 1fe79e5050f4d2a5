package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/test/must"
)

const movable = "host: h\nproxmox: {url: \"https://h\", token_file: /t, ca_file: /c}\n"

func TestStore(t *testing.T) {
	c := must.Get(config.Parse("f", []byte(movable+"store: {postgres: \"host=/run/postgresql user=gated\", member: node1}\n")))(t)
	require.Equal(t, &config.Store{Postgres: "host=/run/postgresql user=gated", Member: "node1", Durability: "replicated", Lease: 15 * time.Second}, c.Store)
	c = must.Get(config.Parse("f", []byte(movable)))(t)
	require.Nil(t, c.Store)
}

func TestStoreIsRefused(t *testing.T) {
	const store = "store: {postgres: \"host=db\", member: node1}\n"
	for text, want := range map[string]string{
		"host: h\n" + store:                                                            "the guests of local are on one host alone",
		"host: h\nlibvirt: {}\n" + store:                                               "the guests of libvirt are on one host alone",
		movable + "local: {}\nnew_guests: proxmox\n" + store:                           "the guests of local are on one host alone",
		movable + "commands: {x: {argv: [/x]}}\n" + store:                              "commands change one host alone",
		movable + "store: {member: node1}\n":                                           "postgres is missing",
		movable + "store: {postgres: \"host=db\"}\n":                                   "member is missing",
		movable + "store: {postgres: \"host=db\", member: node 1}\n":                   "is not a name",
		movable + "store: {postgres: \"\", member: node1}\n":                           "without a password",
		movable + "store: {postgres: \"host=db password=x\", member: node1}\n":         "without a password",
		movable + "store: {postgres: \"postgres://u:p@db/x\", member: node1}\n":        "without a password",
		movable + "store: {postgres: \"postgres://db/x?password=p\", member: node1}\n": "without a password",
		movable + "store: {postgres: \"host=db\", member: n, durability: async}\n":     "durability",
		movable + "store: {postgres: \"host=db\", member: n, lease: 1s}\n":             "lease",
	} {
		_, err := config.Parse("f", []byte(text))
		require.ErrorIs(t, err, refusal.Malformed, text)
		require.ErrorContains(t, err, want, text)
	}
}

// What init writes for a gate with a ledger is read as it was asked for.
func TestRenderWritesAStore(t *testing.T) {
	want := &config.Store{Postgres: "host=/run/postgresql user=gated", Member: "node1", Durability: "single", Lease: time.Minute}
	b := must.Get(config.Render(config.Initial{Host: "h", State: "/s", Store: want}))(t)
	c := must.Get(config.Parse("f", append(b, "proxmox: {url: \"https://h\", token_file: /t, ca_file: /c}\n"...)))(t, string(b))
	require.Equal(t, want, c.Store)
}

func TestStoreChecksWhatInitWrites(t *testing.T) {
	good := config.Store{Postgres: "host=db", Member: "node1", Durability: "replicated", Lease: 15 * time.Second}
	require.NoError(t, good.Check())
	for name, change := range map[string]func(*config.Store){
		"no connection": func(s *config.Store) { s.Postgres = "" },
		"a password":    func(s *config.Store) { s.Postgres = "host=db password=x" },
		"no member":     func(s *config.Store) { s.Member = "" },
		"durability":    func(s *config.Store) { s.Durability = "async" },
		"short lease":   func(s *config.Store) { s.Lease = time.Second },
		"long lease":    func(s *config.Store) { s.Lease = time.Hour },
	} {
		s := good
		change(&s)
		require.ErrorIs(t, s.Check(), refusal.BadParams, name)
	}
}
