package main

import (
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gated/internal/agents/agent"
	"gated/internal/host/daemon"
	"gated/internal/test/story"
)

func TestMain(m *testing.M) {
	agent.MaybeOrphan()     // the test binary is the program that measures
	daemon.MaybeExecGuest() // and the daemon, too
	if dir := os.Getenv("DEFAULT_STATE"); dir != "" {
		defaultStateDir = func() string { return dir }
	}
	testscript.Main(m, map[string]func(){
		"gated":     func() { os.Exit(program()) },
		"underunit": func() { os.Exit(underUnit()) },
		"unit":      func() { os.Exit(socketUnit()) },
		"mcpsay":    func() { os.Exit(mcpSay(os.Args[1:])) },
		"clockoff":  func() { os.Exit(clockOff(os.Args[1:])) },
	})
}

func TestStories(t *testing.T) { story.Run(t, "testdata/script", "opsign") }

// clockOff has this machine's clock be off by a duration from what the gate of a
// database has seen, whose daemon does not run: no story can set the clock.
func clockOff(args []string) int {
	by, err := time.ParseDuration(args[1])
	if err == nil {
		err = moveMark(args[0], by)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func moveMark(database string, by time.Duration) error {
	db, err := sql.Open("sqlite", "file:"+database)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(`UPDATE time_mark SET unix = unix - ?`, int64(by/time.Second))
	return err
}
