package page

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/web/access"
)

// heartbeat is how often a stream says that it is alive. Proxies end what is silent for a
// minute.
const heartbeat = 20 * time.Second

// changedGate is one gate of an event: the page that shows it is out of date.
type changedGate struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"`
}

// events tells a browser which gates changed (server-sent events, WHATWG HTML, section
// 9.2). It has no content of a gate: the page asks for that as ever. The wall bounds
// streams, and ends them with their session and with the program.
func (s signing) events(w http.ResponseWriter, r *http.Request) {
	ctx, done, err := s.Wall.Stream(r)
	if err != nil {
		refuse(w, err)
		return
	}
	defer done()
	changes := s.Gates.Changes(ctx)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	// A server may bound how long an answer takes. This one has no end.
	_ = out.SetWriteDeadline(time.Time{}) // a writer without deadlines needs none
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	told := map[string]uint64{}
	session, _ := access.SessionOf(ctx)
	for first := true; ; first = false {
		text := ": alive\n\n"
		if news := s.news(session, told); len(news) > 0 || first {
			b, err := json.Marshal(news)
			if err != nil {
				return
			}
			text = "event: gates\ndata: " + string(b) + "\n\n"
		}
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case _, ok := <-changes:
			if !ok {
				return
			}
		case <-beat.C:
		}
	}
}

// news returns the gates that a session reads and that changed since they were told.
func (s signing) news(session access.Session, told map[string]uint64) []changedGate {
	news := []changedGate{}
	for _, g := range s.Gates.All() {
		if told[g.Name] == g.Version || !s.mayHear(session, g) {
			continue
		}
		told[g.Name] = g.Version
		news = append(news, changedGate{g.Name, g.Version})
	}
	return news
}
