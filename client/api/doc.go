// Package api has the objects on gated's unix socket: the JSON objects, the problem for a refusal, and the one table of
// code, HTTP status and exit code. docs/formats/http-api.md describes it for people, docs/formats/openapi.yaml for programs.
//
// Times are in UTC, sizes in bytes, durations in whole seconds, unless a comment says otherwise. Ids are text: "j12" is a
// job, "j12.1" its first step and the request about that step, "r12" a reservation, "s3" a scope. A target is its kind and
// name, "guest/web-1".
//
// Objects always have all members, null or empty if there is no value, so that a program need not tell "absent" from
// "none". A later version may add members. Readers of answers ignore unknown members.
package api
