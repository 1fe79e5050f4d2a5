package command

// BeforeRun sets a function that is called between the use of a permit and the start of a
// command.
func (d *Driver) BeforeRun(fn func()) { d.beforeRun = fn }

// Room sets the most bytes that the copies of all looks may take.
func (d *Driver) Room(n int64) { d.looks.most = n }

// Held is how many bytes the copies of looks and of runs take now, and how many looks wait for
// room.
func (d *Driver) Held() (looks, runs int64, waiting int) {
	d.looks.mu.Lock()
	defer d.looks.mu.Unlock()
	d.runs.mu.Lock()
	defer d.runs.mu.Unlock()
	return d.looks.held, d.runs.held, len(d.looks.waiting)
}

// Remembered is the number of remembered digests.
func (d *Driver) Remembered() int {
	d.digests.mu.Lock()
	defer d.digests.mu.Unlock()
	return len(d.digests.known)
}
