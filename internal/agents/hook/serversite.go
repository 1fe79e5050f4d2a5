package hook

// serverSite says where a product's MCP servers are named, and in which form.
type serverSite struct {
	file     string      // in the checkout, or in the product's directory of the user
	atHome   bool        // the file is in that directory
	member   string      // of the file, has the servers
	entry    serverEntry // nil if the file is TOML
	oneList  bool        // an entry has the program and its arguments in one list
	comments comments    // what the product reads beside JSON
}

// serverEntry returns an entry that starts a server with a line.
type serverEntry func(line []string) any

// stdioServer is an entry of Claude Code and those that follow it.
type stdioServer struct {
	Type    string   `json:"type,omitzero"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Tools   []string `json:"tools,omitzero"`
}

// stdio returns entries of a type, with the tools that the product may use.
func stdio(kind string, tools ...string) serverEntry {
	return func(line []string) any {
		return stdioServer{Type: kind, Command: line[0], Args: line[1:], Tools: tools}
	}
}

const mcpServers = "mcpServers"

func (Claude) servers() serverSite {
	return serverSite{file: ".mcp.json", member: mcpServers, entry: stdio("stdio")}
}

func (Codex) servers() serverSite { return serverSite{file: "config.toml", atHome: true} }

func (Gemini) servers() serverSite {
	return serverSite{file: ".gemini/settings.json", member: mcpServers, entry: stdio(""), comments: withComments}
}

func (Cursor) servers() serverSite {
	return serverSite{file: ".cursor/mcp.json", member: mcpServers, entry: stdio("stdio")}
}

func (Copilot) servers() serverSite {
	return serverSite{file: "mcp-config.json", atHome: true, member: mcpServers, entry: stdio("local", "*")}
}

func (OpenCode) servers() serverSite {
	return serverSite{file: "opencode.json", member: "mcp", oneList: true, comments: trailingCommas, entry: func(line []string) any {
		return struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Enabled bool     `json:"enabled"`
		}{"local", line, true}
	}}
}
