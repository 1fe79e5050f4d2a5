package fsck

import "gated/internal/store"

// schema compares what the database is made of with what the migrations make. A
// UNIQUE or a CHECK that is not there any more lets in what nobody looks for; a
// trigger rewrites rows behind whoever writes them.
func (c *check) schema() error {
	have, err := c.tx.Schema()
	if err != nil {
		return err
	}
	type key struct{ kind, name string }
	want := map[key]string{}
	for _, o := range c.Schema {
		want[key{o.Kind, o.Name}] = o.SQL
	}
	for _, o := range have {
		k := key{o.Kind, o.Name}
		where := o.Kind + " " + o.Name
		sql, known := want[k]
		switch {
		case !known && (c.Schema != nil || o.Kind == "trigger" || o.Kind == "view"):
			c.found(schemaUnknown, where, "no migration makes it")
		case known && sql != o.SQL:
			c.found(schemaChanged, where, "it is not as the migrations make it")
		}
		delete(want, k)
	}
	for _, o := range c.Schema { // in its order
		if _, lost := want[key{o.Kind, o.Name}]; lost {
			c.found(schemaMissing, o.Kind+" "+o.Name, "it is not there any more")
		}
	}
	c.report.Checked["schema"] = int64(len(have))
	return c.constraints(have)
}

// constraints checks what rows of a table have to be by themselves, as the
// migrations say it where they are known.
func (c *check) constraints(have []store.Object) error {
	if c.Schema != nil {
		have = c.Schema
	}
	for _, o := range have {
		if !c.tables[o.Name] {
			continue
		}
		broken, err := c.tx.Violated(o)
		if err != nil {
			return err
		}
		for _, expr := range broken {
			c.found(rowInvalid, o.Name, "a row does not meet %s", expr)
		}
	}
	return nil
}
