package daemon

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
)

// TestEveryKeyIsReloadedOrNamed changes each field of the configuration. A reload applies the change, or fixedNames
// names it, so that the operator learns that it waits for the next start. A reload refuses another host.
func TestEveryKeyIsReloadedOrNamed(t *testing.T) {
	reloaded := []string{"Policy", "RevocationFile", "Host", "OldWords"}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		var before, after config.Config
		change(t, reflect.ValueOf(&after).Elem().Field(i))
		names := fixedNames(before, after)
		if slices.Contains(reloaded, field.Name) {
			require.Empty(t, names, field.Name)
			continue
		}
		require.NotEmpty(t, names, "a reload does not apply %s and does not name it", field.Name)
	}
}

// change sets v to a value that is not its zero value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		change(t, v.Field(0))
	default:
		t.Fatalf("no change of a %s is known here", v.Kind())
	}
}
