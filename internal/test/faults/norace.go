//go:build !race

package faults

// Stride is from which call to which next one tests go that try each: under the
// race detector, where everything takes many times as long, to every 17th.
const Stride = 1
