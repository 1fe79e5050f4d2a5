package access

import (
	_ "embed"
	"html/template"
	"net/http"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// launchScriptPath has the script of the page of LaunchPath.
const launchScriptPath = "/launch.js"

//go:embed launch.js
var launchScript []byte

var plainPages = template.Must(template.New("problem").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Refused</title></head>
<body><main><h1>Refused</h1><p>{{.Detail}}</p>{{with .Hint}}<p>{{.}}</p>{{end}}<p><code>{{.Code}}</code></p></main></body></html>
{{define "launch"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>opsign web</title>
<script type="module" src="/launch.js"></script></head>
<body><main><h1>opsign web</h1><p id="said" role="status">If this page stays, paste what stands behind the # of the address that
opsign web printed.</p>
<form method="post" action="/launch"><label>Token <input name="token" type="password" autocomplete="off" required></label>
<button>Open</button></form></main></body></html>
{{end}}{{define "on"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="0"><title>One moment</title></head>
<body><main><p><a href="">Go on</a></p></main></body></html>
{{end}}`))

func page(w http.ResponseWriter, status int, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = plainPages.ExecuteTemplate(w, name, data) // a client that is gone needs no answer
}

func plainProblem(w http.ResponseWriter, _ *http.Request, status int, why *refusal.Refusal) {
	page(w, status, "problem", why)
}

func plainLaunch(w http.ResponseWriter, _ *http.Request) { page(w, http.StatusOK, "launch", nil) }

// goOn has the browser ask for the same page again, as this page's own wish.
func goOn(rw http.ResponseWriter) { page(rw, http.StatusOK, "on", nil) }

// statusOf returns the status of a refusal as the gate's own answers have it.
func statusOf(why *refusal.Refusal) int { return api.ProblemOf(why).Status }
