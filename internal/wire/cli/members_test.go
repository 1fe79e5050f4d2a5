package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
)

func TestMembersAreOfAList(t *testing.T) {
	of := func(o client.Options) (out []string) {
		if o.Getenv == nil {
			o.Getenv = func(string) string { return "" }
		}
		for _, one := range members(o) {
			out = append(out, one.Remote+one.Socket)
		}
		return out
	}
	require.Equal(t, []string{""}, of(client.Options{}))
	require.Equal(t, []string{"/run/a"}, of(client.Options{Socket: "/run/a"}))
	require.Equal(t, []string{"/run/a", "/run/b"}, of(client.Options{Socket: "/run/a,/run/b"}))
	require.Equal(t, []string{"/run/a,b"}, of(client.Options{Socket: "/run/a,b"}), "a path may have a comma")
	require.Equal(t, []string{"ssh://a", "ssh://u@b"}, of(client.Options{Remote: "ssh://a,ssh://u@b"}))
	require.Equal(t, []string{"/run/a", "/run/b"}, of(client.Options{Getenv: func(name string) string {
		return map[string]string{"GATED_SOCKET": "/run/a,/run/b"}[name]
	}}))
}

func TestIfNoMemberAnswersTheFirstIsAsked(t *testing.T) {
	all := members(client.Options{Socket: t.TempDir() + "/a," + t.TempDir() + "/b", Getenv: func(string) string { return "" }})
	require.Equal(t, all[0].Socket, active(context.Background(), all).Socket)
}
