package mint

import (
	"crypto/rsa"
	"math/big"
	"sync"
)

// rsaKeys holds those made before: one of 3,072 bits takes a second.
var rsaKeys sync.Map // of name and bits → func() *rsa.PrivateKey

// RSA returns the ssh-rsa key of that name, with a modulus of that many bits, an
// even number from 1,024.
func RSA(t TB, name string, bits int) Key {
	t.Helper()
	type id struct {
		name string
		bits int
	}
	made, _ := rsaKeys.LoadOrStore(id{name, bits}, sync.OnceValue(func() *rsa.PrivateKey { return rsaKey(name, bits) }))
	return plain(t, name, made.(func() *rsa.PrivateKey)())
}

// rsaKey makes a key out of its name; rsa.GenerateKey takes no seed.
func rsaKey(name string, bits int) *rsa.PrivateKey {
	e := big.NewInt(65537)
	one := big.NewInt(1)
	for s := newStream("rsa", name); ; {
		p, q := s.prime(bits/2), s.prime(bits/2)
		less := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
		d := new(big.Int).ModInverse(e, less)
		if d == nil || p.Cmp(q) == 0 {
			continue
		}
		key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: int(e.Int64())}, D: d, Primes: []*big.Int{p, q}}
		key.Precompute()
		return key
	}
}
