package config_test

import (
	"os/user"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func defaults(host string) config.Config {
	p := policy.Default()
	p.Commands = []string{}
	return config.Config{Host: host, NewGuests: "local", AnySubmitter: true, Workers: 4, Policy: p,
		Limits: config.Limits{JournalQuota: 128 << 20, Snapshots: 32, KeepFree: -1, Reserve: -1},
		Local: config.Local{TrashKeep: 24 * time.Hour, StopGrace: 10 * time.Second,
			Commands: map[string]config.Command{}},
		Desired: config.Desired{Interval: 30 * time.Second}, Canary: config.Canary{Decisions: 200, Days: 7, Minimum: 30, Floor: 20},
		Log: config.Log{Format: "auto", Level: "info"}}
}

func TestParseOfTheLeast(t *testing.T) {
	c := must.Get(config.Parse("gated.yaml", []byte("host: pve1\n")))(t)
	require.Equal(t, defaults("pve1"), c)
	require.NoError(t, c.Policy.Validate())
}

func TestParseOfEverything(t *testing.T) {
	c := must.Get(config.Parse("gated.yaml", []byte(`host: pve1
single_user: true
socket: /run/g.sock
socket_group: staff
submitters: [1000, root]
admins: [root, 1001]
local:
  root: /srv/guests
  trash_keep: 1h30m
  stop_grace: 5s
  cgroup: /sys/fs/cgroup/g
  guest_uids: 1900000000-1900009999
  commands:
    web: {argv: [/bin/sh, -c, "exit 0"], user: 33, env: {A: "1"}}
    db: {argv: [/bin/db], user: postgres}
desired: {dir: /etc/d, interval: 10s}
policy: {max_validity: 1h, scratch_max_age: 0s, open_requests_per_source: 5, reject_holds: 2h}
limits: {workers: 9, journal_quota: 7, snapshots_per_guest: 5, keep_free: 3, reserve: 0}
reservations: {unseen: allow}
canary: {decisions: 100, days: 14, minimum: 50, floor: 15}
log: {format: json, level: debug}
monitor: {backup_older: 26h}
`)))(t)
	require.Equal(t, config.Config{
		Host: "pve1", SingleUser: true, Socket: "/run/g.sock", SocketGroup: "staff",
		Submitters: []uint32{1000, 0}, Admins: []uint32{0, 1001},
		Local: config.Local{Root: "/srv/guests", TrashKeep: 90 * time.Minute, StopGrace: 5 * time.Second, Cgroup: "/sys/fs/cgroup/g",
			GuestUIDs: config.UIDs{First: 1900000000, Last: 1900009999},
			Commands: map[string]config.Command{
				"web": {Argv: []string{"/bin/sh", "-c", "exit 0"}, User: "33", Env: map[string]string{"A": "1"}},
				"db":  {Argv: []string{"/bin/db"}, User: "postgres", Env: map[string]string{}},
			}},
		HasLocal: true, NewGuests: "local",
		Desired: config.Desired{Dir: "/etc/d", Interval: 10 * time.Second},
		Policy:  policy.Policy{MaxValidity: time.Hour, OpenPerSource: 5, RejectHolds: 2 * time.Hour, Commands: []string{"db", "web"}},
		Limits:  config.Limits{JournalQuota: 7 << 20, Snapshots: 5, KeepFree: 3 << 20},
		Workers: 9, Unseen: true, Canary: config.Canary{Decisions: 100, Days: 14, Minimum: 50, Floor: 15},
		Log: config.Log{Format: "json", Level: "debug"}, Monitor: config.Monitor{BackupOlder: 26 * time.Hour},
	}, c)
}

func TestParseRefusals(t *testing.T) {
	must.Err(user.Lookup("nobody-has-this-name"))(t)
	for src, want := range map[string]string{
		"":                                                                 "f:1:1: the file is empty",
		"single_user: true":                                                "f:1:1: host is missing",
		"host: 010":                                                        "f:1:7: host is not text",
		"host: \"\"":                                                       "f:1:7: host has 0 bytes",
		"host: h\nhots: x":                                                 "f:2:1: unknown key hots",
		"host: h\nsingle_user: yes":                                        "f:2:14: single_user is neither true nor false",
		"host: h\nsocket: run/g.sock":                                      `f:2:9: "run/g.sock" is not an absolute path`,
		"host: h\nsocket: /run/../g":                                       `f:2:9: "/run/../g" is not an absolute path`,
		"host: h\nsocket_group: \"a b\"":                                   `f:2:15: "a b" is not a name`,
		"host: h\nsubmitters: all":                                         "f:2:13: submitters is neither any nor a list",
		"host: h\nsubmitters: [-1]":                                        "f:2:14: a value of submitters is -1",
		"host: h\nsubmitters: [4294967295]":                                "f:2:14: a value of submitters is 4294967295",
		"host: h\nsubmitters: [010]":                                       "f:2:14: a value of submitters is not a whole number",
		"host: h\nadmins: any":                                             "f:2:9: admins is not a list",
		"host: h\noperators: any":                                          "f:2:12: operators is not a list",
		"host: h\nadmins: [0]\noperators: [0]":                             "f:3:12: operators is the old word for admins, and both are here",
		"host: h\noperators: [root, nobody-has-this-name]":                 "f:2:19: this machine has no user",
		"host: h\nlocal: {rot: /x}":                                        "f:2:9: unknown key rot in local",
		"host: h\nlocal: {trash_keep: 0s}":                                 "f:2:21: 0s is outside 1s to 8784h",
		"host: h\nlocal: {trash_keep: 1}":                                  "f:2:21: trash_keep is not text",
		"host: h\nlocal: {trash_keep: 1d}":                                 `f:2:21: "1d" is not a length of time`,
		"host: h\nlocal: {stop_grace: 1500ms}":                             `f:2:21: "1500ms" is not a length of time`,
		"host: h\nlocal: {stop_grace: -1s}":                                `f:2:21: "-1s" is not a length of time`,
		"host: h\nlocal: {commands: {a: {}}}":                              "f:2:23: argv is missing",
		"host: h\nlocal: {guest_uids: 5000}":                               `f:2:21: guest_uids is not text`,
		"host: h\nlocal: {guest_uids: 05000-6000}":                         `f:2:21: "05000-6000" is not a range of uids`,
		"host: h\nlocal: {guest_uids: 5000-6000-7000}":                     `f:2:21: "5000-6000-7000" is not a range of uids`,
		"host: h\nlocal: {guest_uids: 6000-5000}":                          "f:2:21: 6000-5000 ends before it begins",
		"host: h\nlocal: {guest_uids: 999-5000}":                           "f:2:21: 999-5000 is outside 1000-4294967293",
		"host: h\nlocal: {guest_uids: 4294967290-4294967294}":              "f:2:21: 4294967290-4294967294 is outside 1000-4294967293",
		"host: h\nlocal: {guest_uids: 1000-11000}":                         "f:2:21: 1000-11000 are more than 10000 uids",
		"host: h\nlocal: {commands: {a: {argv: []}}}":                      "f:2:30: the list is empty",
		"host: h\nlocal: {commands: {a: {argv: sh}}}":                      "f:2:30: argv is not a list",
		"host: h\nlocal: {commands: {a: {argv: [sh]}}}":                    `f:2:31: the program "sh" is not an absolute path`,
		"host: h\nlocal: {commands: {a: {argv: [/b, 1]}}}":                 "f:2:35: a value of argv is not text",
		"host: h\nlocal: {commands: {a: {argv: [/b], cwd: /}}}":            "f:2:36: unknown key cwd in a",
		"host: h\nlocal: {commands: {a: {argv: [/b], env: {\"a=b\": x}}}}": `f:2:49: "a=b" is not a variable's name`,
		"host: h\nlocal: {commands: {a: {argv: [/b], env: {A: 1}}}}":       "f:2:45: A is not text",
		"host: h\nlocal: {commands: {\"a b\": {argv: [/b]}}}":              `f:2:27: "a b" is not a name`,
		"host: h\ndesired: {interval: 0s}":                                 "f:2:21: 0s is outside 1s to 24h",
		"host: h\nlimits: {workers: 0}":                                    "f:2:19: workers is 0, outside 1 to 256",
		"host: h\nreservations: {unseen: all}":                             `f:2:24: "all" is none of refuse, allow`,
		"host: h\nreservations: {unsen: allow}":                            "f:2:16: unknown key unsen in reservations",
		"host: h\ncanary: off":                                             "f:2:9: canary is not a map",
		"host: h\ncanary: {decision: 100}":                                 "f:2:10: unknown key decision in canary",
		"host: h\ncanary: {decisions: 19}":                                 "f:2:21: decisions is 19, outside 20 to 1000",
		"host: h\ncanary: {decisions: 1001}":                               "f:2:21: decisions is 1001, outside 20 to 1000",
		"host: h\ncanary: {days: 0}":                                       "f:2:16: days is 0, outside 1 to 30",
		"host: h\ncanary: {days: 31}":                                      "f:2:16: days is 31, outside 1 to 30",
		"host: h\ncanary: {minimum: 9}":                                    "f:2:19: minimum is 9, outside 10 to 500",
		"host: h\ncanary: {minimum: 501}":                                  "f:2:19: minimum is 501, outside 10 to 500",
		"host: h\ncanary: {floor: 4}":                                      "f:2:17: floor is 4, outside 5 to 50",
		"host: h\ncanary: {floor: 51}":                                     "f:2:17: floor is 51, outside 5 to 50",
		"host: h\ncanary: {decisions: 59}":                                 "f:2:9: decisions is 59, less than twice the minimum, 30",
		"host: h\ncanary: {minimum: 101}":                                  "f:2:9: decisions is 200, less than twice the minimum, 101",
		"host: h\nlimits: {journal_quota: 0}":                              "f:2:25: journal_quota is 0, outside 1 to 1048576",
		"host: h\nlimits: {journal_quota: 1048577}":                        "f:2:25: journal_quota is 1048577, outside 1 to 1048576",
		"host: h\nlimits: {snapshots_per_guest: 0}":                        "f:2:31: snapshots_per_guest is 0, outside 1 to 10000",
		"host: h\nlimits: {snapshots_per_guest: 10001}":                    "f:2:31: snapshots_per_guest is 10001, outside 1 to 10000",
		"host: h\nlimits: {keep_free: -1}":                                 "f:2:21: keep_free is -1, outside 0 to 1048576",
		"host: h\nlimits: {keep_free: 1048577}":                            "f:2:21: keep_free is 1048577, outside 0 to 1048576",
		"host: h\nlimits: {reserve: -1}":                                   "f:2:19: reserve is -1, outside 0 to 65536",
		"host: h\nlimits: {reserve: 65537}":                                "f:2:19: reserve is 65537, outside 0 to 65536",
		"host: h\nlimits: {workers: 257}":                                  "f:2:19: workers is 257, outside 1 to 256",

		"host: h\npolicy: {max_validity: 24h1s}":            "f:2:24: 24h0m1s is outside 1s to 24h",
		"host: h\npolicy: {max_validity: 0s}":               "f:2:24: 0s is outside 1s to 24h",
		"host: h\npolicy: {scratch_max_age: 25h}":           "f:2:27: 25h is outside 0s to 24h",
		"host: h\npolicy: {reject_holds: 168h1s}":           "f:2:24: 168h0m1s is outside 0s to 168h",
		"host: h\npolicy: {reject_holds: -1s}":              "f:2:24: ",
		"host: h\npolicy: {open_requests_per_source: 1001}": "f:2:36: open_requests_per_source is 1001, outside 1 to 1000",
		"host: h\npolicy: {open_requests_per_source: 0}":    "f:2:36: open_requests_per_source is 0, outside",
		"host: h\npolicy: {threshold: 0}":                   "f:2:10: unknown key threshold in policy",
		"host: h\npolicy: {commands: [sh]}":                 "f:2:10: unknown key commands in policy",
	} {
		refused(t, src, want)
	}
}

// refused asserts that a file is refused with those words, and nothing of it taken.
func refused(t *testing.T, src, want string) {
	t.Helper()
	c, err := config.Parse("f", []byte(src+"\n"))
	require.ErrorIs(t, err, refusal.Malformed, src)
	require.Contains(t, refusal.As(err).Detail, want, src)
	require.Equal(t, config.Config{}, c, "nothing of a refused file is taken: %s", src)
}

func TestPolicyAtItsBounds(t *testing.T) {
	c, err := config.Parse("f", []byte("host: h\npolicy: {max_validity: 24h, scratch_max_age: 24h, open_requests_per_source: 1000, reject_holds: 168h}\n"))
	require.NoError(t, err)
	require.NoError(t, c.Policy.Validate())
	c, err = config.Parse("f", []byte("host: h\npolicy: {max_validity: 1s, scratch_max_age: 0s, open_requests_per_source: 1, reject_holds: 0s}\n"))
	require.NoError(t, err)
	require.NoError(t, c.Policy.Validate())
}

func TestCanaryAtItsBounds(t *testing.T) {
	for text, want := range map[string]config.Canary{
		"{decisions: 20, days: 1, minimum: 10, floor: 5}":      {Decisions: 20, Days: 1, Minimum: 10, Floor: 5},
		"{decisions: 1000, days: 30, minimum: 500, floor: 50}": {Decisions: 1000, Days: 30, Minimum: 500, Floor: 50},
		"{decisions: 60}": {Decisions: 60, Days: 7, Minimum: 30, Floor: 20},
		"{}":              {Decisions: 200, Days: 7, Minimum: 30, Floor: 20},
	} {
		require.Equal(t, want, must.Get(config.Parse("f", []byte("host: h\ncanary: "+text+"\n")))(t).Canary)
	}
}

func TestRenderRoundTrips(t *testing.T) {
	for _, host := range []string{"pve1", "010", "yes", "a: b", "null", "node-1.example.org", "é"} {
		for _, single := range []bool{true, false} {
			b := must.Get(config.Render(config.Initial{Host: host, SingleUser: single, State: "/var/lib/gated"}))(t)
			c := must.Get(config.Parse("gated.yaml", b))(t, "%s", b)
			want := defaults(host)
			want.SingleUser = single
			require.Equal(t, want, c)
		}
	}
}

// What is commented out shows the defaults: taken in, it changes nothing but
// the paths, accounts and commands that are examples.
func TestRenderShowsEveryKeyWithItsDefault(t *testing.T) {
	b := must.Get(config.Render(config.Initial{Host: "h", State: "/var/lib/my gated"}))(t)
	all := regexp.MustCompile(`(?m)^#([a-z ] *(?:- )?[a-z_-]+:)`).ReplaceAllString(string(b), "$1")
	before, rest, _ := strings.Cut(all, "\nhub:\n")
	section, after, _ := strings.Cut(rest, "\n\n")
	hub := must.Get(config.Parse("gated.yaml", []byte("host: h\nhub:\n"+section+"\n")))(t)
	require.Equal(t, &config.Hub{URL: "https://hub.example.com:8442", CA: "/etc/gated/hub.crt", TokenFile: "/etc/gated/hub-token",
		Interval: 30 * time.Second, Timeout: 30 * time.Second, Report: 10 * time.Minute}, hub.Hub)
	all = before + "\n\n" + after // desired state comes from one place
	before, rest, _ = strings.Cut(all, "\nstore:\n")
	section, after, _ = strings.Cut(rest, "\n\n")
	store := must.Get(config.Parse("gated.yaml", []byte("host: h\nproxmox: {url: \"https://h\", token_file: /t, ca_file: /c}\nstore:\n"+section+"\n")))(t)
	require.Equal(t, &config.Store{Postgres: "postgres://gated@db1.example.com,db2.example.com/gated?sslmode=verify-full", Member: "node1",
		Durability: "replicated", Lease: 15 * time.Second}, store.Store)
	all = before + "\n\n" + after // a gate with a ledger has no guests of one host
	c := must.Get(config.Parse("gated.yaml", []byte(all)))(t, all)
	require.Equal(t, "/var/lib/my gated/guests", c.Local.Root)
	require.Equal(t, []string{"web"}, c.Policy.Commands)
	require.Equal(t, []uint32{0}, c.Admins)
	require.NotEmpty(t, c.Socket)
	require.NotEmpty(t, c.SocketGroup)
	require.NotEmpty(t, c.Desired.Dir)
	require.NotEmpty(t, c.Local.Cgroup)

	want := defaults("h")
	want.HasLocal = true
	small := must.Get(config.Parse("gated.yaml", []byte("host: h\nlibvirt: {templates: {default: {}}}\n")))(t)
	want.Libvirt = small.Libvirt
	require.NotNil(t, c.Proxmox)
	plain, err := config.Parse("gated.yaml", []byte("host: h\nproxmox: {url: \"https://h:1\", token_file: /t, ca_file: /c}\n"))
	require.NoError(t, err)
	require.Equal(t, []any{plain.Proxmox.First, plain.Proxmox.Last, plain.Proxmox.StopGrace, plain.Proxmox.Timeout},
		[]any{c.Proxmox.First, c.Proxmox.Last, c.Proxmox.StopGrace, c.Proxmox.Timeout})
	require.Len(t, c.Proxmox.Templates, 3)
	want.Proxmox = c.Proxmox // all else of it depends on the cluster
	want.Socket, want.SocketGroup, want.Admins = c.Socket, c.SocketGroup, c.Admins
	want.Local.GuestUIDs = config.UIDs{First: 1900000000, Last: 1900009999}
	want.Local.Root, want.Local.Cgroup, want.Local.Commands = c.Local.Root, c.Local.Cgroup, c.Local.Commands
	want.Desired.Dir, want.Policy.Commands = c.Desired.Dir, c.Policy.Commands
	least := must.Get(config.Parse("gated.yaml", []byte("host: h\ncommands: {drop-db: {argv: [/bin/x]}}\n")))(t)
	shown, plainly := c.Commands["drop-db"], least.Commands["drop-db"]
	require.Equal(t, []any{plainly.Timeout, plainly.ProbeTimeout, plainly.Output, plainly.Benign}, []any{shown.Timeout, shown.ProbeTimeout, shown.Output, shown.Benign})
	want.Commands = c.Commands // all else of it depends on the command
	require.Len(t, c.Policy.Rules, 3)
	require.Equal(t, []op.Role{"manager"}, c.Policy.Roles)
	want.Policy.Roles, want.Policy.Rules = c.Policy.Roles, c.Policy.Rules
	want.RevocationFile = "/var/lib/my gated/revoked"
	want.Monitor.BackupOlder = 26 * time.Hour                   // an example: backups are not watched by default
	want.Limits.KeepFree, want.Limits.Reserve = 256<<20, 64<<20 // the most that is ever the default
	require.Equal(t, want, c)
	for i, line := range strings.Split(string(b), "\n") {
		require.LessOrEqual(t, len(line), 110, "line %d", i+1)
	}
}

// The keys of every level say what was meant, also where each map has a name that the operator chose.
func TestTyposAreNamedWithTheKeyThatWasMeant(t *testing.T) {
	for text, want := range map[string]string{
		"submiters: any\n":         `f:2:1: unknown key submiters; is "submitters" meant?`,
		"local: {trash_kep: 1h}\n": `f:2:9: unknown key trash_kep in local; is "trash_keep" meant?`,
		"local: {commands: {web: {argv: [/bin/true], usr: x}}}\n":                                                                 `unknown key usr in web; is "user" meant?`,
		"policy: {rules: [{threshold: 2, cooloff: 1h}]}\n":                                                                        `unknown key cooloff in the rule; is "cool_off" meant?`,
		"policy: {rejects_holds: 1h}\n":                                                                                           `unknown key rejects_holds in policy; is "reject_holds" meant?`,
		"commands: {drop: {argv: [/bin/true], probe: [/bin/true], bening: true}}\n":                                               `unknown key bening in drop; is "benign" meant?`,
		"commands: {drop: {argv: [/bin/true, \"{db}\"], probe: [/bin/true], params: {db: {type: string, patern: \"[a-z]+\"}}}}\n": `unknown key patern in db; is "pattern" meant?`,
		"hub: {ulr: \"https://h\"}\n":                                                                                             `unknown key ulr in hub; is "url" meant?`,
	} {
		refused(t, "host: h\n"+text, want)
	}
}
