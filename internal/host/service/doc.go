// Package service answers the server's calls: each file answers those about one subject, from the gate, the drivers and
// the store. The server does HTTP; a service does not.
package service
