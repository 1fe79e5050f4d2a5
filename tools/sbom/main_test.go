package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The document of this very test program has the members that CycloneDX 1.6 requires, each module
// that the program was built from, and its digest; a second run gives the same bytes.
func TestDocument(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run(out, []string{self}, "0.3.0-dev+abc", time.Unix(1700000000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Fatal("two runs differ")
	}
	var required struct {
		BOMFormat    string `json:"bomFormat"`
		SpecVersion  string `json:"specVersion"`
		SerialNumber string `json:"serialNumber"`
		Version      int    `json:"version"`
		Metadata     struct {
			Timestamp string        `json:"timestamp"`
			Component cdx.Component `json:"component"`
		} `json:"metadata"`
		Components   []cdx.Component  `json:"components"`
		Dependencies []cdx.Dependency `json:"dependencies"`
	}
	if err := json.Unmarshal(first.Bytes(), &required); err != nil {
		t.Fatal(err)
	}
	if required.BOMFormat != "CycloneDX" || required.SpecVersion != "1.6" || required.Version != 1 {
		t.Errorf("head: %+v", required)
	}
	// The pattern of bom-1.6.schema.json.
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`).MatchString(required.SerialNumber) {
		t.Errorf("serial number %q", required.SerialNumber)
	}
	if required.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("timestamp %q", required.Metadata.Timestamp)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	main := required.Metadata.Component
	if main.Version != "0.3.0-dev+abc" || (*main.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
		t.Errorf("component %+v", main)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) == 0 || len(required.Components) != len(info.Deps)+1 {
		t.Fatalf("%d components, the program has %d modules and the standard library", len(required.Components), len(info.Deps))
	}
	refs := map[string]bool{main.BOMRef: true}
	for _, c := range required.Components {
		if c.Type != cdx.ComponentTypeLibrary || c.Name == "" || c.Version == "" || !strings.HasPrefix(c.PackageURL, "pkg:golang/") {
			t.Errorf("component %+v", c)
		}
		if refs[c.BOMRef] {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		refs[c.BOMRef] = true
	}
	if got := required.Components[0]; got.Name != "std" || "go"+got.Version != runtime.Version() {
		t.Errorf("the standard library is %+v", got)
	}
	for _, d := range required.Dependencies {
		for _, ref := range append(*d.Dependencies, d.Ref) {
			if !refs[ref] {
				t.Errorf("a dependency on %q, which is no component", ref)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, args := range map[string][]string{"no program": nil, "two": {"a", "b"}, "not a Go program": {"/etc/passwd"}} {
		if err := run(&bytes.Buffer{}, args, "0.3.0", time.Time{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
