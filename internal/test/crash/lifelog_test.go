package crash

import (
	"bytes"
	"sync"
)

// lifeLog is what a daemon wrote to its standard error: it can be read while
// the daemon writes.
type lifeLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lifeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lifeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lifeLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Reset()
}
