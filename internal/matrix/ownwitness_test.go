package matrix_test

var ownWitnessRows = []attack{}
