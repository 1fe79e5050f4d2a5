package shell

import (
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/agents/steer"
)

const (
	maxPatch = 1 << 20 // bytes of a text with patches
	maxDirs  = 64      // directories in which a program may run
)

// Patch is what a program that applies patches would read.
type Patch struct {
	Text string   // has steer.Any and steer.Glob in the place of what is not known; empty if nothing is known
	Dirs []string // the program runs in one of them, because cd may fail; none if they are not known
}

// Patches returns what the programs apply_patch of a text would read. Whole is false if a part of the text was not taken
// apart: it has a mistake, or more than a bound allows.
func Patches(text string, at Place) (list []Patch, whole bool) {
	w := &walker{limit: maxPatch}
	w.text(text, newScope(at, &w.spent), "")
	return w.patches, !w.cut && !w.full()
}

// patch notes what a program reads that applies patches, or that may be one: its name is not known, and it gets a patch.
func (w *walker) patch(words []steer.Word, s *scope, in string) {
	text, applies := in, false
	if words[0].Known() {
		name := filepath.Base(string(words[0]))
		applies = name == "apply_patch" || name == "applypatch"
	}
	for i, word := range words[1:] {
		switch {
		case word == codexApplies:
			applies = true
		case strings.Contains(string(word), beginPatch) || i == 0 && applies && word != "" && word[0] != '-':
			text = string(word)
		}
	}
	if applies && text == "" && len(words) > 1 && strings.HasPrefix(string(words[1]), "-") && words[1] != codexApplies {
		return // --help
	}
	if applies || !words[0].Known() && strings.Contains(text, beginPatch) {
		w.patches = append(w.patches, Patch{Text: text, Dirs: s.dirs()})
	}
}

const (
	beginPatch = "*** Begin Patch"
	// codexApplies is the flag with which Codex runs itself as apply_patch.
	codexApplies = "--codex-run-as-apply-patch"
)

// dirs returns the directories in which a program may run.
func (s *scope) dirs() []string {
	if s.dir == "" || s.many {
		return nil
	}
	return with(slices.Clone(s.also), s.dir)
}

// left remembers the directories in which a shell still is if a change to another one fails: those of before, and from
// them the change itself.
func (s *scope) left(before scope, to steer.Word) {
	if before.dir == "" {
		return
	}
	also := with(slices.Clone(before.also), before.dir)
	if to.Known() && !filepath.IsAbs(string(to)) {
		for _, dir := range before.also {
			also = with(also, filepath.Join(dir, string(to)))
		}
	}
	s.many = s.many || len(also) > maxDirs
	s.also = also[:min(len(also), maxDirs)]
}

// or keeps what is known after left || right, with the effects of right and without them. The directory is the one that
// left went to, because right usually ends the shell; that of right is one in which the shell also may be.
func (s *scope) or(right *scope) {
	dir := s.dir
	s.join(right)
	s.dir = dir
	if right.dir == "" {
		s.many = s.many || dir != ""
		return
	}
	also := slices.Clone(s.also)
	for _, d := range append(slices.Clone(right.also), right.dir) {
		if d != dir {
			also = with(also, d)
		}
	}
	s.many = s.many || right.many || len(also) > maxDirs
	s.also = also[:min(len(also), maxDirs)]
}

// with returns a list with one more element, unless it is there.
func with(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}
