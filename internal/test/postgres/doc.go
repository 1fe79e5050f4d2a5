// Package postgres starts clusters of PostgreSQL 15 for tests, from Debian's binaries: a primary, a synchronous standby,
// and proxies that cut, hold and delay what goes between them. A test ends only processes that it started.
package postgres
