package life

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/ownfile"
	"gated/internal/host/config"
)

// TestEveryPathOfAConfigurationIsChecked gives each path of the configuration a value. The daemon must check that file
// before it opens it, because the file decides what the gate does.
func TestEveryPathOfAConfigurationIsChecked(t *testing.T) {
	var c config.Config
	notRead := map[string]string{
		"socket":       "the daemon makes it",
		"local.cgroup": "the driver looks at the kernel's own tree",
	}
	paths := map[string]string{} // by key
	var set func(prefix string, v reflect.Value)
	set = func(prefix string, v reflect.Value) {
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return
		}
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			key, _, _ := strings.Cut(tag.Get("yaml"), ",")
			switch {
			case key == "":
			case tag.Get("is") == "path":
				paths[prefix+key] = "/" + prefix + key
				v.Field(i).SetString("/" + prefix + key)
			default:
				set(prefix+key+".", v.Field(i))
			}
		}
	}
	set("", reflect.ValueOf(&c).Elem())
	require.Greater(t, len(paths), 8)
	for _, n := range namedBy(ownfile.Own(), c) {
		require.Equal(t, paths[n.key], n.path, n.key)
		delete(paths, n.key)
	}
	for key, why := range notRead {
		require.Contains(t, paths, key, why)
		delete(paths, key)
	}
	require.Empty(t, paths, "the daemon opens these files and does not check them")
}
