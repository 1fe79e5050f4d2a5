package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/steer"
	"gated/internal/driver/command/catalogue"
	"gated/internal/host/config"
	"gated/internal/test/must"
)

func TestCommands(t *testing.T) {
	c := must.Get(config.Parse("f", []byte(`host: h
commands:
  drop:
    argv: [/usr/bin/dropdb, --, "{db}"]
    probe: [/usr/local/bin/size, "{db}", "{{}}"]
    dir: /srv
    env: {PGHOST: /run/pg}
    user: 101
    instead_of: ["dropdb *", "psql * -c DROP* {db}"]
    timeout: 30s
    probe_timeout: 5s
    output: 4096
    probe_ok: [0, 3]
    input: probe
    params:
      db: {type: string, pattern: "[a-z]+", max: 63}
  tidy:
    argv: [/bin/tidy, "{n}", "{how}", "{where}/x", "{yes}"]
    benign: true
    params:
      n: {type: integer, min: -1, max: 9}
      how: {type: enum, values: [fast, slow]}
      where: {type: path, below: /srv}
      yes: {type: bool}
  again: {argv: [/bin/true], benign: true}
  plan: {argv: [/bin/true], probe: [/bin/false], benign_if: {probe_exit: 0}}
`)))(t)
	require.Equal(t, []string{"again", "tidy"}, c.Policy.Benign)
	require.Equal(t, []string{"plan"}, c.Policy.BenignIf)
	require.True(t, c.Commands["plan"].BenignIf)
	require.Equal(t, []int{0, 1}, c.Commands["plan"].ProbeOK)
	require.Len(t, c.Commands, 4)
	require.Equal(t, catalogue.Entry{InsteadOf: []steer.Pattern{must.Get(steer.ParsePattern("dropdb *"))(t), must.Get(steer.ParsePattern("psql * -c DROP* {db}"))(t)},
		Argv: []string{"/usr/bin/dropdb", "--", "{db}"}, Probe: []string{"/usr/local/bin/size", "{db}", "{{}}"},
		Dir: "/srv", Env: map[string]string{"PGHOST": "/run/pg"}, User: "101", Timeout: 30 * time.Second, ProbeTimeout: 5 * time.Second, Output: 4096, ProbeOK: []int{0, 3}, Input: true,
		Params: map[string]catalogue.Param{"db": {Type: catalogue.String, Pattern: "[a-z]+", Max: 63}}}, c.Commands["drop"])
	require.Equal(t, catalogue.Entry{Argv: []string{"/bin/true"}, Env: map[string]string{}, Params: map[string]catalogue.Param{},
		Timeout: catalogue.DefaultTimeout, ProbeTimeout: catalogue.DefaultProbeTimeout, Output: catalogue.MaxOutput, Benign: true}, c.Commands["again"])
	require.Equal(t, map[string]catalogue.Param{"n": {Type: catalogue.Integer, Min: -1, Max: 9}, "how": {Type: catalogue.Enum, Values: []string{"fast", "slow"}},
		"where": {Type: catalogue.Path, Below: "/srv"}, "yes": {Type: catalogue.Bool}}, c.Commands["tidy"].Params)
}

func TestCommandsRefusals(t *testing.T) {
	for src, want := range map[string]string{
		"x: {}":                               "f:3:6: argv is missing",
		`x: {argv: [/bin/x], instead_of: []}`: "f:3:35: the list is empty",
		`x: {argv: [/bin/x], instead_of: dropdb}`:                                             "instead_of is not a list",
		`x: {argv: [/bin/x], instead_of: [a, /usr/bin/x]}`:                                    `f:3:39: "/usr/bin/x" is no pattern over commands: its first word is not the name of a program`,
		`x: {argv: [/bin/x], instead_of: [a, "a  b"]}`:                                        "it has two blanks side by side",
		`x: {argv: [/bin/x], instead_of: ["a {db}"]}`:                                         "there is no parameter db, for {db}",
		`x: {argv: [/bin/x], instead_of: ["a x{db}"]}`:                                        "is no hole",
		`x: {argv: [/bin/x], instead_of: [` + strings.Repeat("a,", steer.MaxPatterns) + `b]}`: "more than 256 patterns",
		"x: {argv: [bin/x]}":                                            "the program is not an absolute path",
		"x: {argv: []}":                                                 "the list is empty",
		"x: {argv: /bin/x}":                                             "argv is not a list",
		"x: {argv: [/bin/x, 1]}":                                        "a value of argv is not text",
		`x: {argv: [/bin/x, "{db}"]}`:                                   "there is no parameter db",
		`x: {argv: [/bin/x, "{db"]}`:                                    "a { is not closed",
		`x: {argv: [/bin/x, "db}"]}`:                                    "a } closes nothing",
		`x: {argv: [/bin/x, "{}"]}`:                                     "{} does not name a parameter",
		`x: {argv: ["/bin/{x}"], params: {x: {type: bool}}}`:            "the program is not for a parameter to say",
		`x: {argv: [/bin/sh, -c, "rm {x}"], params: {x: {type: bool}}}`: "it would be read as a program",
		`x: {argv: [/usr/bin/python3.11, -c, "{x}"], params: {x: {type: bool}}}`:         "it would be read as a program",
		"x: {argv: [/bin/x], params: {x: {type: bool}}}":                                 "the parameter x is in no word of argv",
		"x: {argv: [/bin/x], probe: [/bin/y, \"{x}\"]}":                                  "there is no parameter x",
		"x: {argv: [/bin/x], probe: [y]}":                                                "the program is not an absolute path",
		"x: {argv: [/bin/x], shell: true}":                                               "unknown key shell",
		"x: {argv: [/bin/x], timeout: 51m}":                                              "51m is outside 1s to 50m",
		"x: {argv: [/bin/x], output: 65537}":                                             "output is 65537, outside 256 to 65536",
		"x: {argv: [/bin/x], probe_ok: [0]}":                                             "f:3:33: probe_ok is about the probe, and there is none",
		"x: {argv: [/bin/x], input: probe}":                                              "f:3:30: input is about the probe, and there is none",
		"x: {argv: [/bin/x], probe: [/bin/y], input: file}":                              `"file" is none of probe`,
		"x: {argv: [/bin/x], probe: [/bin/y], probe_ok: []}":                             "the list is empty",
		"x: {argv: [/bin/x], probe: [/bin/y], probe_ok: [0, 0]}":                         "the exit status 0 is there twice",
		"x: {argv: [/bin/x], probe: [/bin/y], probe_ok: [256]}":                          "outside 0 to 255",
		"x: {argv: [/bin/x], probe: [/bin/y], probe_ok: 0}":                              "probe_ok is not a list",
		"x: {argv: [/bin/x], benign_if: {probe_exit: 0}}":                                "benign_if is about the probe, and there is none",
		"x: {argv: [/bin/x], probe: [/bin/y], benign_if: {probe_exit: 1}}":               "probe_exit is 1, outside 0 to 0",
		"x: {argv: [/bin/x], probe: [/bin/y], benign_if: {}}":                            "probe_exit is missing",
		"x: {argv: [/bin/x], probe: [/bin/y], benign_if: true}":                          "benign_if is not a map",
		"x: {argv: [/bin/x], probe: [/bin/y], benign_if: {probe_exit: 0, output: x}}":    "unknown key output",
		"x: {argv: [/bin/x], probe: [/bin/y], benign: true, benign_if: {probe_exit: 0}}": "the entry is benign whatever its probe says",
		"x: {argv: [/bin/x], dir: srv}":                                                  `"srv" is not an absolute path`,
		"x: {argv: [/bin/x], env: {a-b: a}}":                                             `"a-b" is not a variable's name`,
		"x: {argv: [/bin/x], user: a/b}":                                                 `"a/b" is not a name`,
		"x: {argv: [/bin/x], benign: yes}":                                               "benign is neither true nor false",
		"a/b: {argv: [/bin/x]}":                                                          `"a/b" is not a name`,
		`x: {argv: [/bin/x, "{db_password}"], params: {db_password: {type: bool}}}`:      `"db_password" sounds like a secret`,
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: string}}}`:                        "pattern is missing",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: string, pattern: "("}}}`:          "the pattern is not RE2",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: string, pattern: "a)|(b"}}}`:      "the pattern is not RE2",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: string, pattern: "\\Qa"}}}`:       "the pattern does not end",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: string, pattern: a, max: 4097}}}`: "outside 1 to 4096",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: string, pattern: a, min: 1}}}`:    "unknown key min",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: integer, min: 2, max: 1}}}`:       "2 to 1 is no range",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: integer, min: 2}}}`:               "max is missing",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: enum, values: [a, a]}}}`:          `the value "a" is there twice`,
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: enum, values: []}}}`:              "the list is empty",
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: path, below: srv}}}`:              `"srv" is not an absolute path`,
		`x: {argv: [/bin/x, "{p}"], params: {p: {type: number}}}`:                        `the type is "number"`,
		`x: {argv: [/bin/x, "{p}"], params: {p: {min: 1}}}`:                              "type is missing",
	} {
		refused(t, "host: h\ncommands:\n  "+src, want)
		refused(t, "host: h\ncommands:\n  "+src, "f:3:")
	}
}
