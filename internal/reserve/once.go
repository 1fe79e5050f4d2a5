package reserve

import "github.com/go-json-experiment/json"

// once is near for one of several paths: what there is at a directory above them
// is read once for all, for that costs more than to look a path up in it. So a
// commit of many files can be checked beside many reservations.
func (s *search) once(p pattern, each func(candidate) (bool, error)) error {
	dirs := ancestors(p.prefix)
	if err := s.read(p, dirs); err != nil {
		return err
	}
	n := 0
	for _, dir := range dirs {
		for _, c := range s.dirs[dir] {
			if n++; n > MaxCandidates {
				return tooComplex(p.asked)
			}
			if next, err := each(c); err != nil || !next {
				return err
			}
		}
	}
	return nil
}

// read reads what there is at directories that were not read before.
func (s *search) read(p pattern, dirs []string) error {
	found := map[string][]candidate{}
	for _, dir := range dirs {
		if _, known := s.dirs[dir]; !known {
			found[dir] = nil
		}
	}
	fresh := make([]string, 0, len(found))
	for dir := range found {
		fresh = append(fresh, dir)
	}
	paths, err := json.Marshal(fresh)
	if err != nil {
		return err
	}
	_, err = s.query(func(c candidate) (bool, error) {
		found[c.prefix] = append(found[c.prefix], c)
		return true, s.row(p)
	}, sqlAbove, string(paths), s.now.UnixNano())
	if err != nil {
		return err
	}
	for dir, all := range found {
		s.dirs[dir] = all
	}
	return nil
}
