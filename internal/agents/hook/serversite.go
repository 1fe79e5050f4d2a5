package hook

// serverSite says where a product's MCP servers are named, and in which form.
type serverSite struct {
	file   string // in the checkout, or in the product's directory of the user
	dirVar string // the variable that names that directory; empty if the file is in the checkout
	member string // of the file, has the servers
	entry  serverEntry
}

// serverEntry returns an entry that starts a server with a line, or with none. It is nil if the file is TOML.
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
		e := stdioServer{Type: kind, Tools: tools}
		if len(line) > 0 {
			e.Command, e.Args = line[0], line[1:]
		}
		return e
	}
}

const mcpServers = "mcpServers"

func (Claude) servers() serverSite {
	return serverSite{file: ".mcp.json", member: mcpServers, entry: stdio("stdio")}
}

func (Codex) servers() serverSite { return serverSite{file: "config.toml", dirVar: "CODEX_HOME"} }

func (Gemini) servers() serverSite {
	return serverSite{file: ".gemini/settings.json", member: mcpServers, entry: stdio("")}
}

func (Cursor) servers() serverSite {
	return serverSite{file: ".cursor/mcp.json", member: mcpServers, entry: stdio("stdio")}
}

func (Copilot) servers() serverSite {
	return serverSite{file: "mcp-config.json", dirVar: "COPILOT_HOME", member: mcpServers, entry: stdio("local", "*")}
}

func (OpenCode) servers() serverSite {
	return serverSite{file: "opencode.json", member: "mcp", entry: func(line []string) any {
		return struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Enabled bool     `json:"enabled"`
		}{"local", line, true}
	}}
}
