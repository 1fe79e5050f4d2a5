// Package service has what the server asks: each file answers the calls about one
// subject, from the gate, the drivers and the store. The server knows of HTTP, a
// service does not.
package service
