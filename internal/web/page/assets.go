package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"
)

// The paths of the files that all pages have.
const (
	modulePath = "/page.js"
	stylePath  = "/page.css"
	iconPath   = "/icon.svg"
)

var (
	//go:embed page.js
	module []byte

	//go:embed page.css
	style []byte

	//go:embed icon.svg
	icon []byte
)

// assetRoutes adds those files. They say nothing of any gate, so no session is needed.
func (c Config) assetRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+modulePath, asset("text/javascript; charset=utf-8", module))
	mux.HandleFunc("GET "+stylePath, asset("text/css; charset=utf-8", style))
	mux.HandleFunc("GET "+iconPath, asset("image/svg+xml", icon))
	c.Wall.Open(modulePath, stylePath, iconPath)
}

// asset answers with a file. A browser asks each time whether it changed, so that no page of a new program has an old one.
func asset(kind string, content []byte) http.HandlerFunc {
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}
