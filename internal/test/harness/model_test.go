package harness_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// call is a tool call that a model asks its product for.
type call struct {
	id     string
	server string // of the tool, where the product names it apart
	tool   string
	args   map[string]any
	text   string // instead of args, for a tool that takes text

	// later makes args of what the model was told of the call before. It may be nil.
	later func(said string) (map[string]any, error)
}

// dialect is how a product and its model talk.
type dialect interface {
	// turn says whether a request wants the next call. A product also asks its model for titles and the like.
	turn(path string, request object) bool
	// reply is the answer with a call, or with the model's last words for nil. It returns the media type too.
	reply(path string, next *call) (kind, body string)
	// told is what a request tells the model of a call; false if it says nothing.
	told(request object, c call) (string, bool)
}

// object is a JSON value that has members.
type object map[string]any

// at follows members through a JSON value. It returns nil if one is missing.
func (o object) at(names ...string) any {
	var v any = map[string]any(o)
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// list returns the objects of a member that is a list.
func (o object) list(names ...string) (out []object) {
	all, _ := o.at(names...).([]any)
	for _, v := range all {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// text returns a JSON value's texts, joined: products wrap what a tool said in different ways.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, text(one))
		}
		return strings.Join(all, "\n")
	case map[string]any:
		var all []string
		for _, one := range v {
			all = append(all, text(one))
		}
		return strings.Join(all, "\n")
	}
	return ""
}

// model plays a script to a product. It asks for one call a turn.
type model struct {
	*httptest.Server
	speaks dialect
	script []call

	mu       sync.Mutex
	turn     int
	requests []string
	heard    map[string]string // what the product said of each call, by id
	failed   error             // of a call's later, which ends the script
}

// newModel serves a model until the test ends.
func newModel(t *testing.T, speaks dialect, script []call) *model {
	m := &model{speaks: speaks, script: script, heard: map[string]string{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// ServeHTTP answers a product.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request object
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &request) != nil {
		http.NotFound(w, r)
		return
	}
	kind, reply := m.answer(r.URL.Path, request, string(body))
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, reply) // a product that is gone needs no answer
}

// answer notes what a request says, and returns the answer.
func (m *model) answer(path string, request object, body string) (kind, reply string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, path+" "+body)
	for _, c := range m.script {
		if said, ok := m.speaks.told(request, c); ok {
			m.heard[c.id] = said
		}
	}
	if m.failed != nil || !m.speaks.turn(path, request) || m.turn >= len(m.script) {
		return m.speaks.reply(path, nil)
	}
	next := &m.script[m.turn]
	if next.later != nil {
		if next.args, m.failed = next.later(m.heard[m.script[m.turn-1].id]); m.failed != nil {
			return m.speaks.reply(path, nil)
		}
	}
	m.turn++
	return m.speaks.reply(path, next)
}

// said returns what the product told the model of a call. It ends the test if the product told nothing.
func (m *model) said(t *testing.T, id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	said, ok := m.heard[id]
	require.True(t, ok, "the model was told nothing of %s in %d requests", id, len(m.requests))
	return said
}

// asJSON returns a value as JSON.
func asJSON(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // a script has nothing that JSON cannot say
	}
	return string(b)
}
