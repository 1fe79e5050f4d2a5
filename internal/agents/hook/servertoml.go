package hook

import (
	"bytes"
	"reflect"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// The lines around gated's table in Codex's file. The table is found again by them.
const (
	tomlOpens = "# gated mcp install: from here\n"
	tomlEnds  = "# gated mcp install: to here\n"
)

// codexPasses are variables that Codex does not pass to MCP servers unless it is told to.
const codexPasses = `["GATED_SOCKET", "GATED_UID", "GATED_AGENT_TOKEN_FILE", "XDG_RUNTIME_DIR"]`

// editTOML returns Codex's configuration with the server of a line, or without it if line is nil. The result is read
// again: all but gated's table has to mean the same as before.
func editTOML(text []byte, line []string) ([]byte, error) {
	before, err := readTOML(text)
	if err != nil {
		return nil, err
	}
	_, named := before["mcp_servers"]
	edited, had := withoutBlock(text)
	if takeServer(before) != had {
		return nil, otherServer()
	}
	if line != nil && named && !had && !serversHeader.Match(text) {
		return nil, unknownServers()
	}
	if line != nil {
		if len(edited) > 0 && !bytes.HasSuffix(edited, []byte("\n")) {
			edited = append(edited, '\n')
		}
		edited = append(edited, tomlBlock(line)...)
	}
	after, err := readTOML(edited)
	if err != nil || takeServer(after) != (line != nil) || !reflect.DeepEqual(before, after) {
		return nil, unknownServers()
	}
	return edited, nil
}

// serversHeader matches the header of a table of servers. A table that is written in another way, as in braces, may not
// be added to.
var serversHeader = regexp.MustCompile(`(?m)^[ \t]*\[mcp_servers[.\]]`)

func unknownServers() error {
	return refusal.New(refusal.Conflict, "its servers have a form that is not known").
		WithHint("add the table [mcp_servers.%s] by hand, or remove it: nothing was changed", serverName)
}

// tomlBlock returns gated's table.
func tomlBlock(line []string) string {
	words := make([]string, 0, len(line))
	for _, w := range line {
		quoted, _ := jsontext.AppendQuote(nil, w) // Command accepted it: it is text
		words = append(words, string(quoted))
	}
	return tomlOpens + "[mcp_servers." + serverName + "]\ncommand = " + words[0] + "\nargs = [" +
		strings.Join(words[1:], ", ") + "]\nenv_vars = " + codexPasses + "\n" + tomlEnds
}

// withoutBlock removes gated's lines. It reports whether there were any.
func withoutBlock(text []byte) ([]byte, bool) {
	end := bytes.LastIndex(text, []byte(tomlEnds))
	if end < 0 {
		return bytes.Clone(text), false
	}
	start := bytes.LastIndex(text[:end], []byte(tomlOpens))
	if start < 0 || start > 0 && text[start-1] != '\n' {
		return bytes.Clone(text), false
	}
	return replaced(text, span{start, end + len(tomlEnds)}, ""), true
}

func readTOML(text []byte) (map[string]any, error) {
	out := map[string]any{}
	if err := toml.Unmarshal(text, &out); err != nil {
		return nil, refusal.New(refusal.Malformed, "it is not valid TOML").WithHint("correct it first: nothing was changed")
	}
	return out, nil
}

// takeServer removes gated's server from what was read, and the table of servers if it is then empty. It reports
// whether there was one.
func takeServer(config map[string]any) bool {
	servers, ok := config["mcp_servers"].(map[string]any)
	if !ok {
		return false
	}
	_, there := servers[serverName]
	delete(servers, serverName)
	if len(servers) == 0 {
		delete(config, "mcp_servers")
	}
	return there
}
