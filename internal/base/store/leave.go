package store

// Leave has the database forget its place among the groups of a Keeper. So it is opened without one from now on. The store
// is one that was opened with Leaves.
func (tx *Tx) Leave() error {
	_, err := tx.Exec(`DELETE FROM store_meta WHERE name LIKE 'ledger.%'`)
	return err
}
