package loss

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpus is where the seeds of FuzzSequence are.
const corpus = "testdata/fuzz/FuzzSequence"

// FuzzSequence reads a sequence from bytes, plays it, and asks what the oracle asks:
// nothing is lost unsigned, and what is signed runs.
func FuzzSequence(f *testing.F) {
	for _, h := range holes {
		f.Add(encode(h.seq))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		seq := decode(b)
		if again := encode(decode(encode(seq))); string(again) != string(encode(seq)) {
			t.Fatalf("%q is read as another sequence than it is written as", b)
		}
		seq = seq[:min(len(seq), 60)]
		for _, b := range beds[:2] { // memory, and local, whose trash is swept and whose programs are processes
			if p, err := try(t, b.make(t), seq); err != nil {
				t.Fatalf("%s: %s", b.name, found{seq, p, err})
			}
		}
	})
}

// seedOf is the file of a hole in the corpus, as go test reads it.
func seedOf(h hole) (path, text string) {
	name := strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(h.name)
	return filepath.Join(corpus, name), fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", encode(h.seq))
}

// TestCorpusHasEveryHole asks that the corpus of FuzzSequence has each hole as it is
// in the table. GATED_LOSS_CORPUS=write writes it.
func TestCorpusHasEveryHole(t *testing.T) {
	for _, h := range holes {
		path, want := seedOf(h)
		if os.Getenv("GATED_LOSS_CORPUS") == "write" {
			must(t, os.MkdirAll(corpus, 0o755))
			must(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got, err := os.ReadFile(path)
		must(t, err)
		if string(got) != want {
			t.Errorf("%s is not the sequence of the table; GATED_LOSS_CORPUS=write go test ./internal/test/loss -run Corpus writes it", path)
		}
	}
}
