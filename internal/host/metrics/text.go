package metrics

import (
	"slices"
	"strconv"
	"strings"
)

// The types of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// text is Prometheus' text format 0.0.4: families, each with HELP, TYPE and samples.
// Prometheus' own library is not used, because its start costs each hook 1.6 ms.
type text struct{ b []byte }

// family begins a family. Samples of its follow.
func (t *text) family(name, kind, help string) {
	t.b = append(t.b, "# HELP "+name+" "+strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)+"\n"...)
	t.b = append(t.b, "# TYPE "+name+" "+kind+"\n"...)
}

// sample adds a value. labels are names and values by turns.
func (t *text) sample(name string, value float64, labels ...string) {
	t.b = append(t.b, name...)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		t.b = append(append(t.b, sep), labels[i]+`="`...)
		t.b = append(t.b, labelText.Replace(labels[i+1])+`"`...)
	}
	if len(labels) > 1 {
		t.b = append(t.b, '}')
	}
	t.b = append(t.b, ' ')
	t.b = strconv.AppendFloat(t.b, value, 'g', -1, 64)
	t.b = append(t.b, '\n')
}

var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// one is a family of one sample without labels.
func (t *text) one(name, kind, help string, value float64) {
	t.family(name, kind, help)
	t.sample(name, value)
}

// spread counts values by upper bounds. Its user locks it.
type spread struct {
	bounds []float64
	counts []int64 // by bound; the last one is for larger values
	sum    float64
}

func newSpread(bounds ...float64) *spread {
	return &spread{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (s *spread) add(v float64) {
	i, _ := slices.BinarySearch(s.bounds, v) // a bound is part of its own bucket
	s.counts[i]++
	s.sum += v
}

func (t *text) spread(name, help string, s *spread) {
	t.family(name, histogram, help)
	total := int64(0)
	for i, n := range s.counts {
		total += n
		bound := "+Inf"
		if i < len(s.bounds) {
			bound = strconv.FormatFloat(s.bounds[i], 'g', -1, 64)
		}
		t.sample(name+"_bucket", float64(total), "le", bound)
	}
	t.sample(name+"_sum", s.sum)
	t.sample(name+"_count", float64(total))
}
