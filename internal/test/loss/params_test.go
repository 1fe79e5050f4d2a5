package loss

import (
	"fmt"
	"strings"

	"gated/internal/base/op"
)

// params makes parameters for an operation from five bytes: bit i of the first
// one says whether the i-th optional parameter is there, the others choose values.
// A parameter that the generator has no pool for gets a value by its type.
func params(s op.Spec, target string, args [5]uint8, b bed, seen op.Observed) op.Params {
	p := op.Params{}
	optional := 0
	for i, d := range s.Params {
		v := args[1+i%4] >> (i / 4)
		if !d.Required {
			there := args[0]&(1<<(optional%8)) != 0
			optional++
			if !there {
				continue
			}
		}
		if is := value(d, v, b, seen); is != nil {
			p[d.Name] = is
		}
	}
	switch {
	case s.Name == "guest.create":
		for k, v := range b.making() {
			if !p.Has(k) {
				p[k] = v
			}
		}
	case s.Free:
		return b.free(target, args)
	}
	return p
}

func value(d op.Param, v uint8, b bed, seen op.Observed) any {
	switch d.Type {
	case op.TBool:
		return v%4 != 3
	case op.TInt:
		ints := []int64{64, 128, 512, 1024, d.Min, 1}
		return min(max(ints[int(v)%len(ints)], d.Min), d.Max)
	case op.TLabels:
		return []map[string]any{{"tier": "prod"}, {}, {"tier": "test"}, {"tier": "prod", "keep": "yes"}}[v%4]
	case op.TLines:
		return []any{fmt.Sprintf("line-%d", v%4)}
	}
	if pool := words(d, b, seen); len(pool) > 0 {
		return pool[int(v)%len(pool)]
	}
	return nil // this back end has nothing of the kind
}

// words are texts that a parameter may have: names that mean something to others,
// and what is there.
func words(d op.Param, b bed, seen op.Observed) []string {
	switch d.Name {
	case "state":
		return []string{"stopped", "running"}
	case "command":
		return b.commands()
	case "snapshot":
		return append(append([]string{"s0", "s1"}, seen.Snapshots...), "none")
	case "from":
		return names
	case "incarnation":
		var out []string
		for _, t := range seen.Trash {
			out = append(out, string(t.Incarnation))
		}
		return append(out, string(seen.Incarnation))
	case "disk":
		out := []string{}
		for _, x := range seen.Disks {
			out = append(out, x.Name)
		}
		return append(out, b.newDisk())
	case "backup":
		return append(strings.Fields(strings.Join(seen.Backups, " ")), "b0")
	case "template":
		return b.templates()
	}
	// A parameter that came later: whatever is a name here.
	return append(append([]string{"s0", "keep"}, names...), seen.Snapshots...)
}
