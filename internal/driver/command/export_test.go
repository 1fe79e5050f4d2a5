package command

// BeforeRun has fn called between the use of a permit and the start of a command.
func (d *Driver) BeforeRun(fn func()) { d.beforeRun = fn }
