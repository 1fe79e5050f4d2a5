package hook

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// The lines around gated's table in Codex's file. The first says what the file was like, so that it can be so again.
const (
	tomlOpens        = "# gated mcp install: from here"
	tomlOpensUnended = "# gated mcp install: from here; the line above had no end"
	tomlOpensEmpty   = "# gated mcp install: from here; the file was empty"
	tomlEnds         = "# gated mcp install: to here"
)

// codexPasses are variables that Codex does not pass to MCP servers unless it is told to.
const codexPasses = `["GATED_SOCKET", "GATED_UID", "GATED_AGENT_TOKEN_FILE", "XDG_RUNTIME_DIR"]`

const codexServers = "mcp_servers"

// editTOML returns Codex's configuration with the server of a line, or without it if line is nil. there says that the
// file exists. The result is read again: all but what is gated's has to mean the same as before.
func editTOML(text []byte, there bool, line []string) (serverEdit, error) {
	out := serverEdit{text: text}
	before, err := readTOML(text)
	if err != nil {
		return out, err
	}
	lines, ok := tomlLines(text)
	if !ok {
		return out, unknownServers()
	}
	entry, found := serverOf(before)
	switch {
	case found && !ownServer(lineOf(entry)):
		return out, otherServer()
	case !found && line == nil:
		return out, nil
	case !found:
		if _, named := before[codexServers]; named && !hasTable(lines) {
			return out, unknownServers()
		}
		out.text = withTable(text, there, line)
	case line == nil:
		out.notes = entryNotes(entry, true, "command", "args", "env_vars")
		out.text, out.gone = withoutTable(text, lines)
	default:
		out.notes = entryNotes(entry, false, "command", "args", "env_vars")
		if !slices.Equal(lineOf(entry), line) {
			if out.text, ok = restartedTOML(text, lines, entry, line); !ok {
				return out, unknownServers()
			}
		}
	}
	after, err := readTOML(out.text)
	if err != nil || !sameButServer(before, after, found, line) {
		return out, unknownServers()
	}
	return out, nil
}

// sameButServer reports whether an edit left everything as it was but gated's server, and did that as wished.
func sameButServer(before, after map[string]any, found bool, line []string) bool {
	was, _ := serverOf(before)
	is, there := serverOf(after)
	if there != (line != nil) || there && !slices.Equal(lineOf(is), line) {
		return false
	}
	for _, m := range []map[string]any{was, is} {
		delete(m, "command")
		delete(m, "args")
	}
	if found && there && !sameTOML(was, is) {
		return false
	}
	for _, config := range []map[string]any{before, after} {
		if servers, ok := config[codexServers].(map[string]any); ok {
			if delete(servers, serverName); len(servers) == 0 {
				delete(config, codexServers)
			}
		}
	}
	return sameTOML(before, after)
}

func unknownServers() error {
	return refusal.New(refusal.Conflict, "its servers have a form that is not known").
		WithHint("add the table [mcp_servers.%s] by hand, or remove it: nothing was changed", serverName)
}

// serverOf returns the server with gated's name. One that is no table has no members.
func serverOf(config map[string]any) (entry map[string]any, found bool) {
	servers, _ := config[codexServers].(map[string]any)
	is, found := servers[serverName]
	entry, _ = is.(map[string]any)
	return entry, found
}

// lineOf returns the program and arguments of an entry; nil if it has another form.
func lineOf(entry map[string]any) []string {
	command, _ := entry["command"].(string)
	args, ok := entry["args"].([]any)
	if !ok {
		return nil
	}
	line := []string{command}
	for _, a := range args {
		word, ok := a.(string)
		if !ok {
			return nil
		}
		line = append(line, word)
	}
	return line
}

// hasTable reports whether a header names a table of servers. A table that is written in another way, as in braces, may
// not be added to.
func hasTable(lines []tomlLine) bool {
	return slices.ContainsFunc(lines, func(l tomlLine) bool { return l.header && l.below(codexServers) })
}

// withTable adds gated's table.
func withTable(text []byte, there bool, line []string) []byte {
	opens := tomlOpens
	out := bytes.Clone(text)
	switch {
	case there && len(text) == 0:
		opens = tomlOpensEmpty
	case len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")):
		opens = tomlOpensUnended
		out = append(out, '\n')
	}
	return append(out, opens+"\n["+codexServers+"."+serverName+"]\ncommand = "+tomlWord(line[0])+"\nargs = "+tomlList(line[1:])+
		"\nenv_vars = "+codexPasses+"\n"+tomlEnds+"\n"...)
}

func tomlWord(word string) string {
	quoted, _ := jsontext.AppendQuote(nil, word) // Command accepted it: it is text
	return string(quoted)
}

func tomlList(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, tomlWord(w))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// opens reports whether the statement is the line before gated's table.
func (l tomlLine) opens() bool {
	return l.comment == tomlOpens || l.comment == tomlOpensUnended || l.comment == tomlOpensEmpty
}

// withoutTable removes gated's tables and the lines around them. gone says that Install made the file and nothing is left
// in it.
func withoutTable(text []byte, lines []tomlLine) (_ []byte, gone bool) {
	var out []byte
	at, opens, ended := 0, "", false
	cut := func(l tomlLine) {
		out = append(out, text[at:l.start]...)
		at = l.end
	}
	begun := false
	for i, l := range lines {
		if l.below(codexServers, serverName) {
			if before := lines[max(0, i-1)]; opens == "" && before.opens() && before.end == l.start {
				opens = before.comment
				cut(before)
			}
			begun = true
			cut(l)
		} else if begun && !ended && l.comment == tomlEnds {
			ended = true
			cut(l)
		}
	}
	rest := text[at:]
	if opens == tomlOpensUnended && len(rest) == 0 {
		out = bytes.TrimSuffix(out, []byte("\n"))
	}
	out = append(out, rest...)
	return out, len(out) == 0 && opens == tomlOpens
}

// restartedTOML returns the text with another program and other arguments in gated's entry. What is as wished stays as it
// is written. ok is false if the keys are not found, or if a comment stands inside.
func restartedTOML(text []byte, lines []tomlLine, entry map[string]any, line []string) (_ []byte, ok bool) {
	was := lineOf(entry)
	wished := map[string]string{}
	if was[0] != line[0] {
		wished["command"] = tomlWord(line[0])
	}
	if !slices.Equal(was[1:], line[1:]) {
		wished["args"] = tomlList(line[1:])
	}
	for _, l := range slices.Backward(lines) {
		if len(l.path) != 3 || !l.below(codexServers, serverName) || l.header {
			continue
		}
		value, changes := wished[l.path[2]]
		if !changes {
			continue
		}
		if l.path[2] == "args" && bytes.IndexByte(text[l.value.start:l.value.end], '#') >= 0 {
			return nil, false
		}
		text = replaced(text, l.value, value)
		delete(wished, l.path[2])
	}
	return text, len(wished) == 0
}
