package matrix_test

var ownRestoreRows = []attack{}
