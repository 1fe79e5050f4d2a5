package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"gated/client"
	"gated/client/api"
)

// probe bounds the question which member of a gate decides.
const probe = 10 * time.Second

// members splits a list of addresses with commas between them: of the daemons of one gate that outlives its host. A path
// with a comma in it is one address, unless each part is an absolute path.
func members(o client.Options) []client.Options {
	sockets := o.Socket
	if sockets == "" && o.Getenv != nil {
		sockets = o.Getenv("GATED_SOCKET")
	}
	parts := strings.Split(sockets, ",")
	if o.Remote != "" {
		parts = strings.Split(o.Remote, ",")
	} else if len(parts) == 1 || slices.ContainsFunc(parts, func(p string) bool { return !strings.HasPrefix(p, "/") }) {
		return []client.Options{o}
	}
	out := make([]client.Options, len(parts))
	for i, p := range parts {
		out[i] = o
		if o.Remote != "" {
			out[i].Remote = p
		} else {
			out[i].Socket = p
		}
	}
	return out
}

// active returns the member that decides, of those that all name; the first that answers if none does; and else the first
// one. It asks all at the same time, and ssh asks a person nothing meanwhile.
func active(ctx context.Context, all []client.Options) client.Options {
	if len(all) == 1 {
		return all[0]
	}
	ctx, cancel := context.WithTimeout(ctx, probe)
	defer cancel()
	type answer struct {
		i      int
		active bool
		err    error
	}
	answers := make(chan answer, len(all))
	for i, o := range all {
		go func() {
			yes, err := decides(ctx, o)
			answers <- answer{i, yes, err}
		}()
	}
	first := len(all)
	for range all {
		a := <-answers
		if a.active {
			return all[a.i]
		}
		if a.err == nil {
			first = min(first, a.i)
		}
	}
	return all[first%len(all)]
}

func decides(ctx context.Context, o client.Options) (bool, error) {
	o.Unattended = true
	c, err := client.New(o)
	if err != nil {
		return false, err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	return err == nil && (s.Member == nil || s.Member.Role == api.RoleActive), err
}
