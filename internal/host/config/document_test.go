package config_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/test/must"
)

// TestTheDocumentsExamplesAreFiles keeps docs/formats/configuration.md true:
// each example there can be copied.
func TestTheDocumentsExamplesAreFiles(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/formats/configuration.md"))(t)
	rules := 0
	for _, block := range regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(string(doc), -1) {
		src := strings.ReplaceAll("\n"+block, "\n    ", "\n")
		if !strings.Contains(src, "host: ") {
			src = "host: pve1" + src
		}
		c := must.Get(config.Parse("gated.yaml", []byte(strings.TrimPrefix(src, "\n"))))(t, src)
		require.NoError(t, c.Policy.Validate())
		rules += len(c.Policy.Rules)
	}
	require.Equal(t, 10, rules)
}

func TestTheDocumentHasEveryKeyOfARule(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/formats/configuration.md"))(t)
	for _, key := range []string{"op", "signed", "target", "labels", "role", "threshold", "touch", "cool_off", "window", "max_validity",
		"policy.roles", "policy.rules", "revocation_file"} {
		require.Contains(t, string(doc), "\n| `"+key+"` |")
	}
}

// TestEveryKeyIsInTheDocumentAndTheFile walks the configuration's types.
func TestEveryKeyIsInTheDocumentAndTheFile(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/formats/configuration.md")
	require.NoError(t, err)
	written, err := os.ReadFile("gated.yaml.tmpl")
	require.NoError(t, err)
	var keys []string
	var walk func(prefix string, k reflect.Type)
	walk = func(prefix string, k reflect.Type) {
		for k.Kind() == reflect.Pointer {
			k = k.Elem()
		}
		if k.Kind() == reflect.Map && k.Elem().Kind() == reflect.Struct {
			k, prefix = k.Elem(), prefix+"NAME."
		}
		if k.Kind() != reflect.Struct {
			return
		}
		for i := range k.NumField() {
			if key, _, _ := strings.Cut(k.Field(i).Tag.Get("yaml"), ","); key != "" {
				keys = append(keys, prefix+key)
				walk(prefix+key+".", k.Field(i).Type)
			}
		}
	}
	walk("", reflect.TypeFor[config.Config]())
	require.Greater(t, len(keys), 40)
	for _, key := range keys {
		row := "\n| `" + key + "` |"
		if _, entry, named := strings.Cut(key, "NAME."); named {
			row = "`" + entry + "`" // of an entry, which the text explains
		}
		if !strings.Contains(string(doc), "\n| `"+key+".") { // a section has rows for its keys
			require.Contains(t, string(doc), row, "the document lacks %s", key)
		}
		if section, _, _ := strings.Cut(key, "."); section == key {
			require.Contains(t, string(written), key+":", "the file that init writes lacks %s", key)
		}
	}
}
