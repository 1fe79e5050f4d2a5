package mint

import (
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"slices"
	"sync"
)

// String returns b as a string of RFC 4251, section 5: its length, its bytes.
func String[T string | []byte](b T) []byte { return append(Uint32(uint32(len(b))), b...) }

// Strings returns each of the list as a string, one after the other.
func Strings[T string | []byte](list ...T) []byte {
	var out []byte
	for _, s := range list {
		out = append(out, String(s)...)
	}
	return out
}

// Uint32 returns n as a uint32 of RFC 4251.
func Uint32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// Uint64 returns n as a uint64 of RFC 4251.
func Uint64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Mpint returns n, which is not negative, as an mpint of RFC 4251.
func Mpint(n *big.Int) []byte {
	b := n.Bytes()
	if len(b) > 0 && b[0] >= 0x80 {
		b = slices.Concat([]byte{0}, b)
	}
	return String(b)
}

// stream is an endless string of bytes that its seed determines.
type stream struct {
	seed  []byte
	block uint64
	left  []byte
}

func newStream(parts ...string) *stream {
	seed := sha256.Sum256(Strings(parts...))
	return &stream{seed: seed[:]}
}

// take returns the next n bytes.
func (s *stream) take(n int) []byte {
	for len(s.left) < n {
		block := sha256.Sum256(append(Uint64(s.block), s.seed...))
		s.left = append(s.left, block[:]...)
		s.block++
	}
	out := s.left[:n:n]
	s.left = s.left[n:]
	return out
}

// below returns a number from 1 to limit-1, near enough to evenly.
func (s *stream) below(limit *big.Int) *big.Int {
	n := new(big.Int).SetBytes(s.take((limit.BitLen()+7)/8 + 8))
	n.Mod(n, new(big.Int).Sub(limit, big.NewInt(1)))
	return n.Add(n, big.NewInt(1))
}

// odd returns an odd number of exactly that many bits, the two highest set, so
// that the product of two has twice the bits.
func (s *stream) odd(bits int) *big.Int {
	n := new(big.Int).SetBytes(s.take((bits + 7) / 8))
	n.SetBit(n, bits-1, 1).SetBit(n, bits-2, 1).SetBit(n, 0, 1)
	for i := n.BitLen() - 1; i >= bits; i-- {
		n.SetBit(n, i, 0)
	}
	return n
}

// prime returns a prime of exactly that many bits.
func (s *stream) prime(bits int) *big.Int {
	start := s.odd(bits)
	for left := newSieve(start); ; {
		n := new(big.Int).Add(start, new(big.Int).SetUint64(left.next()))
		// Baillie-PSW alone: nobody chose the candidate to deceive it.
		if n.BitLen() == bits && n.ProbablyPrime(0) {
			return n
		}
	}
}

// sieve finds what is left above a number without the multiples of small
// primes; to try those too would double the time that an RSA key takes.
type sieve struct {
	offset  uint64
	residue []uint64 // of the number, by each of smallPrimes
}

var smallPrimes = sync.OnceValue(func() []uint64 {
	var primes []uint64
	for n := uint64(3); n < 1<<13; n += 2 {
		if !slices.ContainsFunc(primes, func(p uint64) bool { return n%p == 0 }) {
			primes = append(primes, n)
		}
	}
	return primes
})

func newSieve(start *big.Int) *sieve {
	s := &sieve{}
	for _, p := range smallPrimes() {
		s.residue = append(s.residue, new(big.Int).Mod(start, new(big.Int).SetUint64(p)).Uint64())
	}
	return s
}

// next returns the next even offset that is left, from 2.
func (s *sieve) next() uint64 {
	for {
		s.offset += 2
		if !s.divides() {
			return s.offset
		}
	}
}

func (s *sieve) divides() bool {
	for i, p := range smallPrimes() {
		if (s.residue[i]+s.offset)%p == 0 {
			return true
		}
	}
	return false
}
