// Package vectors reads the files of testdata/vectors with the product's own parsers and verifiers, and has the second
// reader in Python read them too. It has tests alone. With -write they add the cases that the files lack.
package vectors
