package matrix_test

var ownTimeRows = []attack{}
