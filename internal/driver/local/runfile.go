package local

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	runFileName = "run.json"
	logFile     = "log"
	oldLogExt   = ".1"
)

// maxLog is the size in bytes from which a start moves a guest's log away. While a process runs
// its log has no bound.
const maxLog = 8 << 20

// runFile says which process a guest had last. It is written before the process may do
// anything, so that the driver has a record of every process.
type runFile struct {
	PID       int       `json:"pid"`
	Ticks     uint64    `json:"start_ticks"` // since boot, as proc.ID has them
	BootID    string    `json:"boot_id"`
	StartedAt time.Time `json:"started_at"`
	Command   string    `json:"command"`
	Confined  bool      `json:"confined"` // whether Landlock confined the process
	Memory    string    `json:"memory"`   // what limits it: "cgroup", "rlimits" or "none"
	CPUs      string    `json:"cpus"`     // "cgroup" or "none"
	UID       *uint32   `json:"uid"`      // the process' uid; nil in a file of an older gated
}

func (r runFile) write(d *dir) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", runFileName, err)
	}
	return d.replace(runFileName, b)
}

// readRunFile returns nil if there is no run file.
func readRunFile(d *dir) (*runFile, error) {
	b, err := d.read(runFileName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r runFile
	if err := json.Unmarshal(b, &r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", runFileName, err)
	}
	if r.PID <= 1 || r.Ticks == 0 || r.BootID == "" {
		return nil, fmt.Errorf("%s lacks a member", runFileName)
	}
	return &r, nil
}
