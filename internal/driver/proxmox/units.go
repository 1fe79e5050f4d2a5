package proxmox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The API has four units. A guest's memory is in MiB in a configuration and in bytes in a list.
// A disk is "32G" or "512M" in a configuration (powers of 1024), GiB without a letter in an
// allocation, and bytes in a list of volumes. In this package, memory is in MiB and disks are
// in bytes.

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

var sizeUnits = map[byte]int64{'K': 1 << 10, 'M': mebibyte, 'G': gibibyte, 'T': 1 << 40}

// parseSize reads a disk's size in a configuration: digits, an optional fraction, and K, M, G
// or T. Without a letter, the text is in bytes. The result is in bytes.
func parseSize(s string) (int64, error) {
	bad := fmt.Errorf("%q is not a size such as 32G", s)
	if s == "" {
		return 0, bad
	}
	factor := int64(1)
	digits := s
	if f, ok := sizeUnits[s[len(s)-1]]; ok {
		factor, digits = f, s[:len(s)-1]
	}
	whole, fraction, dotted := strings.Cut(digits, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || whole[0] == '+' || dotted && (fraction == "" || len(fraction) > 9 || factor == 1) {
		return 0, bad
	}
	if n > math.MaxInt64/uint64(factor) {
		return 0, bad
	}
	size := int64(n) * factor
	if fraction != "" {
		part, err := strconv.ParseUint(fraction, 10, 63)
		if err != nil {
			return 0, bad
		}
		size += int64(float64(part) / math.Pow10(len(fraction)) * float64(factor))
	}
	if size < 0 {
		return 0, bad
	}
	return size, nil
}

// allocation writes a size in MiB as the API wants it for a new disk: in GiB, with a fraction
// if necessary. Every number of MiB has an exact text.
func allocation(mib int64) string {
	return strconv.FormatFloat(float64(mib)/1024, 'f', -1, 64)
}

// resized writes a size in MiB as the API wants it for a resize.
func resized(mib int64) string { return strconv.FormatInt(mib, 10) + "M" }

// parseMemory reads a configuration's memory in MiB: "2048", and since QEMU 8.1 also
// "current=2048". Without a value it returns Proxmox VE's default, 512.
func parseMemory(s string) (int64, error) {
	if s == "" {
		return 512, nil
	}
	for _, part := range strings.Split(s, ",") {
		key, value, named := strings.Cut(part, "=")
		if !named {
			value = key
		} else if key != "current" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/mebibyte {
			break
		}
		return n, nil
	}
	return 0, fmt.Errorf("%q is not memory in MiB", s)
}
