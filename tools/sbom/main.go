// Sbom prints what a Go program was built from, as CycloneDX 1.6 in JSON: the modules with
// their versions and sums, the standard library, and the program itself with its digest. The
// same program gives the same bytes.
//
//	sbom -version 0.1.0 -epoch 1700000000 bin/gated
package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "the program's semantic `VERSION`")
	epoch := flag.Int64("epoch", 0, "when it was built, in `SECONDS` since 1970 (SOURCE_DATE_EPOCH)")
	flag.Parse()
	if err := run(os.Stdout, flag.Args(), *version, time.Unix(*epoch, 0)); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string, version string, built time.Time) error {
	if len(args) != 1 || version == "" {
		return errors.New("usage: sbom -version VERSION -epoch SECONDS PROGRAM")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).
		EncodeVersion(bom(filepath.Base(args[0]), version, program, info, built), cdx.SpecVersion1_6)
}

// bom describes one program. Its serial number is of its bytes, so that another program has another.
func bom(name, version string, program []byte, info *debug.BuildInfo, built time.Time) *cdx.BOM {
	sum := sha256.Sum256(program)
	b := cdx.NewBOM()
	b.SerialNumber = "urn:uuid:" + uuid(sum[:])
	main := cdx.Component{BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		PackageURL: purl("generic", name, version),
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Properties: settings(info)}
	b.Metadata = &cdx.Metadata{Timestamp: built.UTC().Format(time.RFC3339), Component: &main}
	std := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdx.Component{library("std", std, "")}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, library(m.Path, m.Version, m.Sum))
	}
	uses := make([]string, len(parts))
	for i, p := range parts {
		uses[i] = p.BOMRef
	}
	b.Components = &parts
	b.Dependencies = &[]cdx.Dependency{{Ref: name, Dependencies: &uses}}
	return b
}

// library is a Go module. Its sum is that of go.sum, which is of a list of files and so no digest
// in the sense of CycloneDX.
func library(path, version, sum string) cdx.Component {
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl("golang", path, version)}
	c.BOMRef = c.PackageURL
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}

// settings are those of the build: GOARCH, CGO_ENABLED and so on.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	out := []cdx.Property{{Name: "go:version", Value: info.GoVersion}}
	for _, s := range info.Settings {
		out = append(out, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return &out
}

// purl is a package URL (purl-spec, "pkg:TYPE/NAME@VERSION").
func purl(kind, name, version string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "pkg:" + kind + "/" + strings.Join(parts, "/") + "@" + url.QueryEscape(version)
}

// uuid makes a UUID of version 5's form (RFC 9562, section 5.5) of a name.
func uuid(name []byte) string {
	h := sha1.Sum(name)
	h[6], h[8] = h[6]&0x0f|0x50, h[8]&0x3f|0x80
	s := hex.EncodeToString(h[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
