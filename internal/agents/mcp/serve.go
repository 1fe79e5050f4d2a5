package mcp

import (
	"context"
	"crypto/rand"
	"io"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
)

const (
	// maxAsks is how many calls ask the gate at once. Others wait in line here, so that one agent takes few of the
	// places that the gate gives to all callers of its uid: 8 looks at targets, say.
	maxAsks = 4
	// maxTurns is how many of them are lists, previews or checks. The gate has two turns for those of one uid.
	maxTurns = 1
	// maxWaits is how many calls may wait at once for something that happens at the gate.
	maxWaits = 8
	// maxWait is how long one call may wait, in seconds. Some products end a call after 60 s.
	maxWait = 45
)

// Options say for which gate and agent a server is.
type Options struct {
	Client  *client.Client // of the gate
	Version string         // of this program

	// Directory is what patterns are relative to if a call names no scope: the git top level around it.
	Directory string

	// Register gives the calling processes their name; nil if they have it or need none. It is called until it
	// succeeds. Its error is shown to the agent.
	Register func(context.Context) error
}

// toolset is what the tools share.
type toolset struct {
	Options
	session string        // a random text, new for each process
	asks    chan struct{} // has a place for each call that asks the gate
	turns   chan struct{} // has a place for each list, preview or check
	waits   chan struct{} // has a place for each call that waits
	looks   chan struct{} // has a place for each look at files
	ending  context.Context

	naming sync.Mutex
	named  bool
	why    error // why the name could not be registered
}

// Serve answers one client, from in to out, until in ends or ctx does. Then it ends the calls that are under way. It
// returns ctx's error, and those of in and out.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	ending, end := context.WithCancel(ctx)
	defer end()
	s := &toolset{Options: o, session: rand.Text(), ending: ending, asks: make(chan struct{}, maxAsks),
		turns: make(chan struct{}, maxTurns), waits: make(chan struct{}, maxWaits), looks: make(chan struct{}, maxAsks)}
	impl := &sdk.Implementation{Name: "gated", Title: "gated", Version: o.Version}
	able := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}}
	options := &sdk.ServerOptions{Instructions: instructions, Capabilities: able, SetCacheable: ownOnly,
		InitializedHandler: func(context.Context, *sdk.InitializedRequest) { go s.name(ending) }}
	protocol := sdk.NewServer(impl, options)
	s.addTools(protocol)
	s.addResources(protocol)
	return protocol.Run(ctx, &lines{in: in, out: out})
}

// ownOnly marks an answer as one for this client alone.
func ownOnly(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" }

// name registers the agent's name, once.
func (s *toolset) name(ctx context.Context) {
	s.naming.Lock()
	defer s.naming.Unlock()
	if s.named || s.Register == nil {
		return
	}
	s.why = s.Register(ctx)
	s.named = s.why == nil
}

// notNamed returns why the agent has no name, or nil.
func (s *toolset) notNamed() error {
	s.naming.Lock()
	defer s.naming.Unlock()
	return s.why
}

// begin waits for a place among the calls that ask the gate, and before that for a turn if the gate answers such calls
// in turns. The context that it returns ends with the call, the client and the server. The function gives the places
// back.
func (s *toolset) begin(ctx context.Context, inTurn bool) (context.Context, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ending, cancel)
	places := []chan struct{}{s.asks}
	if inTurn {
		places = []chan struct{}{s.turns, s.asks}
	}
	taken := 0
	end := func() {
		for _, place := range places[:taken] {
			<-place
		}
		stop()
		cancel()
	}
	for _, place := range places {
		select {
		case place <- struct{}{}:
			taken++
		case <-ctx.Done():
			end()
			return ctx, nil, ctx.Err()
		}
	}
	s.name(ctx)
	return ctx, end, nil
}

// turn waits for a turn within a call that has begun without one, and gives the place among those that ask to another
// call meanwhile. A call with a turn waits for a place, so a call with a place must not wait for a turn: both would wait
// for ever. The function gives the turn back.
func (s *toolset) turn(ctx context.Context) (func(), error) {
	<-s.asks
	defer func() { s.asks <- struct{}{} }()
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// waiting takes a place among the calls that wait, and gives the place among those that ask to another call meanwhile.
// It refuses with OverLimit if all are taken.
func (s *toolset) waiting() (func(), error) {
	select {
	case s.waits <- struct{}{}:
	default:
		return nil, refusal.New(refusal.OverLimit, "%d calls of this agent wait already, the most there may be", maxWaits).
			WithHint("wait for the answer of one of them, then call again")
	}
	<-s.asks
	return func() { s.asks <- struct{}{}; <-s.waits }, nil
}

// call is one call of a tool.
type call struct {
	*sdk.CallToolRequest
	key string // the idempotency key, of the session and the call
}

// key returns the idempotency key of a call: a client that sends its call again after a lost answer gets the first job.
func (s *toolset) key(req *sdk.CallToolRequest) string {
	id := ""
	if req.Extra != nil {
		id = req.Extra.Header.Get(callHeader)
	}
	return "mcp-" + s.session + "-" + digest(id)
}

// tool is what a tool is called, and what it says of itself.
type tool struct {
	name, title, about string
	reads              bool // it changes nothing
	destructive        bool // it may end in a loss of data, after an operator's signature
	repeats            bool // calling it again changes no more
	inTurn             bool // the gate answers it in turns
}

// add adds a tool with typed input and output.
func add[In, Out any](s *toolset, to *sdk.Server, t tool, run func(context.Context, call, In) (Out, error)) {
	closed, takes := false, schemaOf[In]()
	definition := &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: takes,
		OutputSchema: answerSchema[Out](), Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: t.reads,
			DestructiveHint: &t.destructive, IdempotentHint: t.repeats, OpenWorldHint: &closed}}
	to.AddTool(definition, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in In
		if err := decodeArguments(req.Params.Arguments, takes, &in); err != nil {
			return refused(err)
		}
		ctx, done, err := s.begin(ctx, t.inTurn)
		if err != nil {
			return nil, err
		}
		defer done()
		out, err := run(ctx, call{req, s.key(req)}, in)
		if err != nil {
			return refused(err)
		}
		return answer(out, false)
	})
}

// answer returns a result that has the same JSON as structured content and as text: some products show one of the two
// alone.
func answer(out any, isError bool) (*sdk.CallToolResult, error) {
	b, err := api.Encode(out)
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{StructuredContent: rawJSON(b), Content: []sdk.Content{&sdk.TextContent{Text: string(b)}},
		IsError: isError}, nil
}

// rawJSON is JSON that is written as it is.
type rawJSON []byte

// MarshalJSON returns the JSON.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// refused returns a tool's answer for an error.
func refused(err error) (*sdk.CallToolResult, error) { return answer(failure{problemOf(err)}, true) }

// schemaOf returns the schema of a type. The types are this package's, and a test makes each of their schemas.
func schemaOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // the type cannot be written as JSON
	}
	withoutNull(schema)
	if schema.Properties == nil { // clients of OpenAI's models refuse an object without properties, and then every tool
		schema.Properties = map[string]*jsonschema.Schema{}
	}
	return schema
}

// withoutNull takes null out of the types of a schema: no member is null here, and some products read one type alone.
func withoutNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	withoutNull(s.Items)
	for _, member := range s.Properties {
		withoutNull(member)
	}
}

// answerSchema returns the schema of a tool's answers: its output, or why it was refused. It allows members of newer
// versions.
func answerSchema[T any]() *jsonschema.Schema {
	schema := schemaOf[T]()
	schema.Required, schema.AdditionalProperties = nil, nil
	schema.Properties["error"] = schemaOf[problem]()
	schema.PropertyOrder = append(schema.PropertyOrder, "error")
	return schema
}
