// Package ha plays a gate that outlives its host, with real daemons, real PostgreSQL servers and a simulated cluster of
// guests. It has only tests.
package ha
