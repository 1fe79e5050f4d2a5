// Package api holds what travels over gated's unix socket: the JSON objects,
// the problem that a refusal becomes, and the one table of code, HTTP status
// and exit code. docs/formats/http-api.md is its description for people.
//
// Objects are written with every member present, null or empty where there is
// nothing to say, so that a program need not tell "absent" from "none". A later
// version may add members; readers of answers ignore those they do not know.
package api
