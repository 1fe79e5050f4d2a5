// Package api has the objects on gated's unix socket: the JSON objects, the problem for a refusal, and the one table of
// code, HTTP status and exit code. docs/formats/http-api.md describes it for people.
//
// Objects always have all members, null or empty if there is no value, so that a program need not tell "absent" from
// "none". A later version may add members. Readers of answers ignore unknown members.
package api
