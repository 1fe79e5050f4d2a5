package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// A standby's registry follows the rows that another member wrote for its host.
func TestAgree(t *testing.T) {
	table := newFakeTable()
	at := time.Unix(1000, 0)
	told := make(chan Registration, 8)
	r := must.Get(New(Config{Now: func() time.Time { return at }, Table: table, Boot: "b", Member: "node2", Ended: func(e Registration) { told <- e }}))(t)
	t.Cleanup(r.Close)
	lives, ends := table.fork(table.init, 100), table.fork(table.init, 200)
	row := func(id int64, name string, p *fakeProcess) Registration {
		reg := Registration{ID: id, Name: name, UID: 1000, Member: "node2", At: at}
		reg.Process.PID, reg.Process.Start, reg.Process.Boot = p.PID, p.Start, "b"
		return reg
	}
	token := Registration{ID: 3, Name: "token", UID: 1000, Member: "node2", Token: hashOf("x"), At: at}
	otherBoot := row(4, "before", lives)
	otherBoot.Process.Boot = "a"
	table.exit(ends)
	rows := []Registration{row(1, "lives", lives), row(2, "ends", ends), token, otherBoot}
	for range 2 {
		ended := must.Get(r.Agree(rows, at))(t)
		require.Equal(t, []string{"ends", "before"}, names(ended), "until the active member knows it")
		require.Equal(t, []string{"lives", "token"}, names(r.All()))
	}
	who, ok := r.Who(lives.peer(), 0)
	require.True(t, ok)
	require.Equal(t, "lives#1", who.Who())

	// The name of a row may be at the beginning of another registration here.
	_, err := r.Register(t.Context(), lives.peer(), Wish{Name: "lives", PID: lives.PID, Reaper: 1}, nil)
	require.NoError(t, err, "it has that name")

	require.Empty(t, must.Get(r.Agree(nil, at))(t))
	require.Len(t, r.All(), 2, "the copy of the database may be behind")
	require.Empty(t, must.Get(r.Agree(rows[2:3], at.Add(time.Second)))(t))
	require.Equal(t, []string{"token"}, names(r.All()))
	_, ok = r.Who(lives.peer(), 0)
	require.False(t, ok)
	require.Empty(t, told, "what the active member ended is not told again")
}

func TestARegistrationHasAProcessOrAToken(t *testing.T) {
	whole := Registration{Name: "a", Token: hashOf("x")}
	require.NoError(t, whole.Check())
	process := Registration{Name: "a"}
	process.Process.PID, process.Process.Start, process.Process.Boot = 7, 1, "b"
	require.NoError(t, process.Check())
	for name, change := range map[string]func(r *Registration){
		"both":       func(r *Registration) { r.Token = hashOf("x") },
		"pid 1":      func(r *Registration) { r.Process.PID = 1 },
		"no start":   func(r *Registration) { r.Process.Start = 0 },
		"no boot":    func(r *Registration) { r.Process.Boot = "" },
		"long boot":  func(r *Registration) { r.Process.Boot = hashOf("x") + "0" },
		"neither":    func(r *Registration) { r.Process.PID, r.Process.Start, r.Process.Boot = 0, 0, "" },
		"half token": func(r *Registration) { *r = Registration{Token: "x"} },
	} {
		r := process
		change(&r)
		require.Error(t, r.Check(), name)
	}
}
