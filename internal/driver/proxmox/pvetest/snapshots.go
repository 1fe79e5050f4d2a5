package pvetest

func (g *guest) snap(name string) *snap {
	for _, s := range g.snaps {
		if s.name == name {
			return s
		}
	}
	return nil
}
