package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"gated/internal/base/op"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
	"gated/internal/wire/cli/clitest"
)

const (
	playbookFile  = "../../contrib/ansible/gated.yaml"
	inventoryFile = "../../contrib/ansible/inventory.yaml"
	userDataFile  = "../../contrib/cloud-init/user-data.yaml"
)

// readExample reads an example, which has to be YAML.
func readExample(t *testing.T, path string, into any) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	require.NoError(t, yaml.Unmarshal(b, into), path)
	return string(b)
}

// understoodLines checks the lines of the program in a script of an example.
func understoodLines(t *testing.T, path, script string) int {
	t.Helper()
	return clitest.Lines(t, path, script, func() *cobra.Command { return testTool().root() })
}

// refusedPlaceholder checks that nobody becomes an operator because a reader left the example's key as it is.
func refusedPlaceholder(t *testing.T, line string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "alice.pub")
	require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
	_, err := pubkey.SignerOf(pubkey.Arg{Path: path}, op.Operational)
	require.ErrorContains(t, err, "does not hold one OpenSSH public key")
}

var (
	flagInQuotes = regexp.MustCompile(`'(--[a-z-]+)'`)
	variable     = regexp.MustCompile(`\bgated_[a-z]+\b`)
)

// TestThePlaybook: it has builtin modules alone, each command of gated is one that gated understands, and the inventory
// has each variable.
func TestThePlaybook(t *testing.T) {
	var plays []struct{ Tasks, Handlers []map[string]any }
	text := readExample(t, playbookFile, &plays)
	require.Len(t, plays, 1)
	lines, registered := 0, map[string]bool{}
	for _, task := range append(plays[0].Tasks, plays[0].Handlers...) {
		modules := 0
		for name, args := range task {
			if !strings.Contains(name, ".") {
				continue
			}
			require.Regexp(t, `^ansible\.builtin\.[a-z]+$`, name)
			modules++
			if command, ok := args.(string); ok && name == "ansible.builtin.command" {
				lines += understoodLines(t, playbookFile, command)
			}
		}
		require.Equal(t, 1, modules, "%v", task["name"])
		if name, ok := task["register"].(string); ok {
			registered[name] = true
		}
	}
	require.Equal(t, 2, lines, "trust show and status")
	require.Contains(t, text, "install -o gated -g gated -m 0600 \"$0\" gated.yaml.new", "the gate reads what it owns")
	require.Contains(t, text, "gated config check /var/lib/gated/gated.yaml.new; code=$?")
	require.Contains(t, text, "state: \"{{ 'present' if gated_settings else 'absent' }}\"", "else old settings stay in force")

	setup, _, err := testTool().root().Find([]string{"setup"})
	require.NoError(t, err)
	flags := flagInQuotes.FindAllStringSubmatch(text, -1)
	require.Len(t, flags, 6)
	for _, m := range flags {
		name := strings.TrimPrefix(m[1], "--")
		require.True(t, setup.Flags().Lookup(name) != nil || setup.InheritedFlags().Lookup(name) != nil, m[1])
	}

	var inventory struct {
		All struct {
			Children struct {
				Gates struct {
					Hosts, Vars map[string]any
				}
			}
		}
	}
	readExample(t, inventoryFile, &inventory)
	gates := inventory.All.Children.Gates
	require.GreaterOrEqual(t, len(gates.Hosts), 2)
	for _, name := range variable.FindAllString(text, -1) {
		if !registered[name] {
			require.Contains(t, gates.Vars, name)
		}
	}
	for _, line := range gates.Vars["gated_operators"].([]any) {
		refusedPlaceholder(t, line.(string))
	}
}

// TestTheUserData: its script is the one that runs, gated understands each line of it, and the key in it is none until it is written.
func TestTheUserData(t *testing.T) {
	var data struct {
		WriteFiles []struct{ Path, Permissions, Content string } `yaml:"write_files"`
		Runcmd     [][]string
	}
	require.True(t, strings.HasPrefix(readExample(t, userDataFile, &data), "#cloud-config\n"), "else cloud-init ignores it")
	files := map[string]string{}
	for _, f := range data.WriteFiles {
		files[f.Path] = f.Content
	}
	require.Len(t, data.Runcmd, 1)
	script := files[data.Runcmd[0][0]]
	require.Contains(t, script, "\nset -eu\n", "a command that fails is no success")
	require.Equal(t, 3, understoodLines(t, userDataFile, script), "setup, status and trust show")
	refusedPlaceholder(t, files["/root/gated/alice.pub"])
}
