package audit

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

// TestEncodeIsWhatReflectionWrites draws entries with any members, also those that later programs add to Entry. A member
// that encode leaves out, or writes in another place or form, fails.
func TestEncodeIsWhatReflectionWrites(t *testing.T) {
	same := func(t require.TestingT, e Entry) {
		want, err := json.Marshal(stored{Seq: e.Seq, V: version, Entry: e}, jsontext.AllowInvalidUTF8(true))
		require.NoError(t, err)
		got, err := e.encode()
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	same(t, Entry{})
	for i := range reflect.TypeFor[Entry]().NumField() { // each member alone
		rapid.Check(t, func(rt *rapid.T) {
			var e Entry
			draw(rt, reflect.ValueOf(&e).Elem().Field(i))
			same(rt, e)
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		var e Entry
		draw(rt, reflect.ValueOf(&e).Elem())
		same(rt, e)
	})
}

func TestEncodeRefusesATimeThatIsNone(t *testing.T) {
	_, err := Entry{Time: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)}.encode()
	require.Error(t, err)
}

// draw sets v, and a part of what is in it, to any value.
func draw(t *rapid.T, v reflect.Value) {
	if !rapid.Bool().Draw(t, "set") {
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *time.Time:
		*to = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		return
	case *op.Params:
		*to = rapid.SampledFrom([]op.Params{nil, {}, {"a": "b"},
			{"b": int64(1), "a": true, "c": map[string]any{"x": []any{"y", int64(2)}}}}).Draw(t, "params")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(anyText.Draw(t, "text"))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rapid.Int32().Draw(t, "n")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "b"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		draw(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, "length"), 3))
		for i := range v.Len() {
			draw(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i))
		}
	default:
		t.Fatalf("an entry has a %v", v.Type())
	}
}

// anyText is text, and bytes that are none.
var anyText = rapid.OneOf(rapid.String(),
	rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
	rapid.SampledFrom([]string{"<a>&'\"\\/\b\f\n\r\t\x00\x7f\u2028\u2029\ufffd", "ü", "\xff", "🙂\xed\xa0\x80"}))

func BenchmarkEncode(b *testing.B) {
	e := Entry{Seq: 12, Time: time.Unix(1700000000, 5).UTC(), Kind: Approved, By: "uid:1000", PID: 77, Job: "j1", Step: "j1.1",
		Op: "guest.destroy", Target: "guest/web-1", Incarnation: "web-1-x", Class: op.Destructive, Rule: "destroy-unproven",
		Payload: "bccd5616a66b3b9718ee4fbdf62d2376f8b48db0c2a89edca1d8370e82df3e04", Signers: []string{"alice operational SHA256:x"},
		Gate: "0123456789abcdef0123456789abcdef", Prev: "bccd5616a66b3b9718ee4fbdf62d2376f8b48db0c2a89edca1d8370e82df3e04"}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = e.encode()
		}
	})
	b.Run("reflection", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(stored{Seq: e.Seq, V: version, Entry: e}, jsontext.AllowInvalidUTF8(true))
		}
	})
}
