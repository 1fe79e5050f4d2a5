package mint

import (
	"crypto/sha1"
	"math/big"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"
)

// dsaType is named here because x/crypto marks its own name as insecure.
const dsaType = "ssh-dss"

// dsaGroup is the p, q and g of all DSA keys here: 1,024 and 160 bits.
var dsaGroup = sync.OnceValue(func() [3]*big.Int {
	s, one := newStream("dsa"), big.NewInt(1)
	q := s.prime(160)
	for {
		// The multiple of q nearest below a random number, plus one.
		p := s.odd(1024)
		p.Sub(p, new(big.Int).Mod(p, new(big.Int).Lsh(q, 1))).Add(p, one)
		if p.BitLen() != 1024 || !p.ProbablyPrime(0) {
			continue
		}
		power := new(big.Int).Div(new(big.Int).Sub(p, one), q)
		if g := new(big.Int).Exp(big.NewInt(2), power, p); g.Cmp(one) > 0 {
			return [3]*big.Int{p, q, g}
		}
	}
})

// DSA returns the ssh-dss key of that name, which OpenSSH and x/crypto once
// took and gated refuses.
func DSA(t TB, name string) Key {
	t.Helper()
	group := dsaGroup()
	p, q, g := group[0], group[1], group[2]
	x := newStream("dsa", name).below(q)
	y := new(big.Int).Exp(g, x, p)
	blob := slices.Concat(String(dsaType), Mpint(p), Mpint(q), Mpint(g), Mpint(y))
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	maker := func(data []byte, _ string) (*ssh.Signature, error) {
		digest := sha1.Sum(data)
		r, s := new(big.Int), new(big.Int)
		for random := newStream("dsa", name, string(data)); r.Sign() == 0 || s.Sign() == 0; {
			k := random.below(q)
			r.Exp(g, k, p).Mod(r, q)
			s.Mul(x, r).Add(s, new(big.Int).SetBytes(digest[:]))
			s.Mul(s, new(big.Int).ModInverse(k, q)).Mod(s, q)
		}
		value := append(r.FillBytes(make([]byte, 20)), s.FillBytes(make([]byte, 20))...)
		return &ssh.Signature{Format: dsaType, Blob: value}, nil
	}
	return Key{Name: name, public: public, maker: maker}
}
