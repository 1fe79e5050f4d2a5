package mcp

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"gated/client/api"
)

// decodeArguments reads a tool's arguments as they are meant, and then as strictly as the gate reads a body. Refusals are
// Malformed and TooComplex.
func decodeArguments(b []byte, s *jsonschema.Schema, in any) error {
	if len(b) == 0 || string(b) == "null" {
		b = []byte("{}")
	}
	b = meant(b, s)
	if _, err := api.Weigh(b); err != nil {
		return err
	}
	return api.DecodeWeighed(b, in)
}

// kinds are how values of a type begin.
var kinds = map[string]string{"object": "{", "array": "[", "integer": "0", "boolean": "tf"}

// meant returns a value as its client meant it. Some clients send null for a member that they leave out, or a value's
// JSON as a text. Only members that the schema names are read so: elsewhere a null or a text is the value itself.
func meant(b jsontext.Value, s *jsonschema.Schema) jsontext.Value {
	var text string
	if b.Kind() == '"' && json.Unmarshal(b, &text) == nil {
		if v := jsontext.Value(text); v.IsValid() && strings.ContainsRune(kinds[s.Type], rune(v.Kind())) {
			b = v
		}
	}
	switch {
	case b.Kind() == '{' && s.Type == "object":
		var members map[string]jsontext.Value
		if json.Unmarshal(b, &members) != nil {
			return b
		}
		for name, v := range members {
			switch member := s.Properties[name]; {
			case member == nil:
			case v.Kind() == 'n':
				delete(members, name)
			default:
				members[name] = meant(v, member)
			}
		}
		if all, err := json.Marshal(members); err == nil {
			b = all
		}
	case b.Kind() == '[' && s.Type == "array" && s.Items != nil:
		var items []jsontext.Value
		if json.Unmarshal(b, &items) != nil {
			return b
		}
		for i, v := range items {
			items[i] = meant(v, s.Items)
		}
		if all, err := json.Marshal(items); err == nil {
			b = all
		}
	}
	return b
}
