package matrix_test

var ownCanaryRows = []attack{}
