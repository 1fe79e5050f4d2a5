package pvetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

var update = flag.Bool("update", false, "write schema.json from the official schema")

// official is the path of the API's schema beside the repository. The schema does not belong to
// the repository.
const official = "../../../../../shared/data/pve-api.json"

// used are the endpoints that the small schema keeps. Of an endpoint with very many parameters,
// it keeps the named ones; nil means all.
var used = map[string][]string{
	"GET /version":                                            nil,
	"GET /nodes":                                              nil,
	"GET /cluster/nextid":                                     nil,
	"GET /cluster/resources":                                  nil,
	"GET /nodes/{node}/tasks":                                 nil,
	"GET /nodes/{node}/tasks/{upid}/status":                   nil,
	"GET /nodes/{node}/tasks/{upid}/log":                      nil,
	"DELETE /nodes/{node}/tasks/{upid}":                       nil,
	"GET /nodes/{node}/storage":                               nil,
	"GET /nodes/{node}/storage/{storage}/status":              nil,
	"GET /nodes/{node}/storage/{storage}/content":             nil,
	"GET /nodes/{node}/storage/{storage}/content/{volume}":    nil,
	"PUT /nodes/{node}/storage/{storage}/content/{volume}":    nil,
	"DELETE /nodes/{node}/storage/{storage}/content/{volume}": nil,

	"GET /nodes/{node}/qemu":                                      nil,
	"POST /nodes/{node}/qemu":                                     qemuParams,
	"DELETE /nodes/{node}/qemu/{vmid}":                            nil,
	"POST /nodes/{node}/qemu/{vmid}/clone":                        nil,
	"GET /nodes/{node}/qemu/{vmid}/config":                        nil,
	"PUT /nodes/{node}/qemu/{vmid}/config":                        qemuParams,
	"POST /nodes/{node}/qemu/{vmid}/config":                       qemuParams,
	"GET /nodes/{node}/qemu/{vmid}/pending":                       nil,
	"PUT /nodes/{node}/qemu/{vmid}/resize":                        nil,
	"PUT /nodes/{node}/qemu/{vmid}/unlink":                        nil,
	"POST /nodes/{node}/qemu/{vmid}/move_disk":                    nil,
	"GET /nodes/{node}/qemu/{vmid}/snapshot":                      nil,
	"POST /nodes/{node}/qemu/{vmid}/snapshot":                     nil,
	"DELETE /nodes/{node}/qemu/{vmid}/snapshot/{snapname}":        nil,
	"GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config":    nil,
	"POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback": nil,
	"GET /nodes/{node}/qemu/{vmid}/status/current":                nil,
	"POST /nodes/{node}/qemu/{vmid}/status/start":                 nil,
	"POST /nodes/{node}/qemu/{vmid}/status/stop":                  nil,
	"POST /nodes/{node}/qemu/{vmid}/status/shutdown":              nil,
	"POST /nodes/{node}/qemu/{vmid}/status/reboot":                nil,
	"POST /nodes/{node}/qemu/{vmid}/status/reset":                 nil,
	"POST /nodes/{node}/qemu/{vmid}/template":                     nil,

	"GET /nodes/{node}/lxc":                                      nil,
	"POST /nodes/{node}/lxc":                                     lxcParams,
	"DELETE /nodes/{node}/lxc/{vmid}":                            nil,
	"POST /nodes/{node}/lxc/{vmid}/clone":                        nil,
	"GET /nodes/{node}/lxc/{vmid}/config":                        nil,
	"PUT /nodes/{node}/lxc/{vmid}/config":                        lxcParams,
	"GET /nodes/{node}/lxc/{vmid}/pending":                       nil,
	"PUT /nodes/{node}/lxc/{vmid}/resize":                        nil,
	"POST /nodes/{node}/lxc/{vmid}/move_volume":                  nil,
	"GET /nodes/{node}/lxc/{vmid}/snapshot":                      nil,
	"POST /nodes/{node}/lxc/{vmid}/snapshot":                     nil,
	"DELETE /nodes/{node}/lxc/{vmid}/snapshot/{snapname}":        nil,
	"GET /nodes/{node}/lxc/{vmid}/snapshot/{snapname}/config":    nil,
	"POST /nodes/{node}/lxc/{vmid}/snapshot/{snapname}/rollback": nil,
	"GET /nodes/{node}/lxc/{vmid}/status/current":                nil,
	"POST /nodes/{node}/lxc/{vmid}/status/start":                 nil,
	"POST /nodes/{node}/lxc/{vmid}/status/stop":                  nil,
	"POST /nodes/{node}/lxc/{vmid}/status/shutdown":              nil,
	"POST /nodes/{node}/lxc/{vmid}/status/reboot":                nil,
	"POST /nodes/{node}/lxc/{vmid}/template":                     nil,
}

var qemuParams = strings.Fields(`node vmid archive force storage unique start pool name memory balloon cores sockets
	vcpus cpu cpulimit ostype onboot protection description tags digest delete revert lock skiplock scsihw boot bios
	machine agent smbios1 vmgenid template efidisk0 tpmstate0 ide[n] sata[n] scsi[n] virtio[n] unused[n] net[n] serial[n]
	ipconfig[n] ciuser cipassword sshkeys hotplug acpi background_delay live-restore bwlimit`)

var lxcParams = strings.Fields(`node vmid ostemplate restore force storage unique start pool hostname memory swap cores
	cpulimit cpuunits ostype arch onboot protection description tags digest delete revert lock rootfs mp[n] unused[n]
	net[n] unprivileged features password template ignore-unpack-errors bwlimit`)

// TestSchemaIsTheOfficialOne makes the small schema again from the official one, if that is
// present, and compares. With -update it writes it.
func TestSchemaIsTheOfficialOne(t *testing.T) {
	words, err := os.ReadFile(filepath.FromSlash(official))
	if os.IsNotExist(err) {
		t.Skip("the official schema is not beside the repository")
	}
	require.NoError(t, err)
	made := reduce(t, words)
	if *update {
		require.NoError(t, os.WriteFile("schema.json", made, 0o644))
	}
	kept := must.Get(os.ReadFile("schema.json"))(t)
	require.Equal(t, string(kept), string(made), "run: go test ./internal/driver/proxmox/pvetest -run Official -update")
}

// runs writes numbered values as one: "scsi{0..30}".
func runs(values []string) []string {
	var out []string
	for i := 0; i < len(values); {
		m := indexed.FindStringSubmatch(values[i])
		n := 0
		for m != nil && m[2] == "0" && i+n < len(values) && values[i+n] == m[1]+strconv.Itoa(n) {
			n++
		}
		if n < 2 {
			out = append(out, values[i])
			i++
			continue
		}
		out = append(out, fmt.Sprintf("%s{0..%d}", m[1], n-1))
		i += n
	}
	return out
}

type officialParam struct {
	Type      string         `json:"type"`
	Optional  int            `json:"optional"`
	Enum      []string       `json:"enum"`
	Minimum   bound          `json:"minimum"`
	Maximum   bound          `json:"maximum"`
	MinLength int            `json:"minLength"`
	MaxLength int            `json:"maxLength"`
	Pattern   string         `json:"pattern"`
	Requires  string         `json:"requires"`
	Format    jsontext.Value `json:"format"`
	Alias     string         `json:"alias"`
	KeyAlias  string         `json:"keyAlias"`
}

// bound is a number. The official schema writes it as a string in some places.
type bound struct{ value *float64 }

func (b *bound) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	b.value = &f
	return err
}

type officialSchema struct {
	Source    string `json:"source"`
	Endpoints []struct {
		Path       string `json:"path"`
		Method     string `json:"method"`
		Parameters struct {
			Properties map[string]officialParam `json:"properties"`
		} `json:"parameters"`
	} `json:"endpoints"`
}

// reduce keeps the used part of the official schema, in the form of schema.go.
func reduce(t *testing.T, words []byte) []byte {
	var from officialSchema
	require.NoError(t, json.Unmarshal(words, &from))
	to := schema{Source: from.Source}
	for _, e := range from.Endpoints {
		key := e.Method + " " + e.Path
		keep, isUsed := used[key]
		if !isUsed {
			continue
		}
		out := endpoint{Path: e.Path, Method: e.Method, Params: map[string]param{}}
		for name, p := range e.Parameters.Properties {
			if keep == nil || contains(keep, name) {
				out.Params[name] = reduceParam(t, p)
			}
		}
		to.Endpoints = append(to.Endpoints, out)
	}
	require.Len(t, to.Endpoints, len(used), "an endpoint that is used is not in the official schema")
	sort.Slice(to.Endpoints, func(i, j int) bool {
		a, b := to.Endpoints[i], to.Endpoints[j]
		return a.Path < b.Path || a.Path == b.Path && a.Method < b.Method
	})
	share(t, &to)
	return written(t, to)
}

// share moves a parameter's description that several endpoints have to one place: "scsi[n]", or
// "disk 2" if a name has several meanings.
func share(t *testing.T, s *schema) {
	uses := map[string]int{}
	for _, e := range s.Endpoints {
		for _, p := range e.Params {
			uses[text(t, p)]++
		}
	}
	s.Shared = map[string]param{}
	names := map[string]string{}
	for _, e := range s.Endpoints {
		for _, name := range sortedKeys(e.Params) {
			words := text(t, e.Params[name])
			if uses[words] < 2 || len(words) < 40 {
				continue
			}
			if names[words] == "" {
				names[words] = name
				for n := 2; s.Shared[names[words]].Type != ""; n++ {
					names[words] = name + " " + strconv.Itoa(n)
				}
				s.Shared[names[words]] = e.Params[name]
			}
			e.Params[name] = param{Ref: names[words]}
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	made := must.Get(json.Marshal(v, json.Deterministic(true)))(t)
	return string(made)
}

// written is the content of the file: a line for each shared parameter and each endpoint.
func written(t *testing.T, s schema) []byte {
	var b strings.Builder
	b.WriteString("{\"source\": " + text(t, s.Source) + ",\n\"shared\": {\n")
	for i, name := range sortedKeys(s.Shared) {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteString(text(t, name) + ": " + text(t, s.Shared[name]))
	}
	b.WriteString("\n},\n\"endpoints\": [\n")
	for i, e := range s.Endpoints {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteString(text(t, e))
	}
	b.WriteString("\n]}\n")
	return []byte(b.String())
}

// throttles are parts of a disk that the driver does not set.
var throttles = regexp.MustCompile(`^(bps|iops|mbps)`)

func reduceParam(t *testing.T, p officialParam) param {
	out := param{Type: p.Type, Optional: p.Optional != 0, Enum: runs(p.Enum), Min: p.Minimum.value, Max: p.Maximum.value,
		MinLength: p.MinLength, MaxLength: p.MaxLength, Pattern: p.Pattern, Requires: p.Requires,
		Alias: p.Alias, KeyAlias: p.KeyAlias}
	switch {
	case len(p.Format) == 0:
	case p.Format.Kind() == '"':
		require.NoError(t, json.Unmarshal(p.Format, &out.Format))
	default:
		var parts map[string]officialParam
		require.NoError(t, json.Unmarshal(p.Format, &parts))
		out.Parts = map[string]param{}
		for name, part := range parts {
			if !throttles.MatchString(name) {
				out.Parts[name] = reduceParam(t, part)
			}
		}
	}
	return out
}
