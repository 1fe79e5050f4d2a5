package gates

import (
	"reflect"
	"time"
)

// weigh estimates the memory that a value takes, in bytes, with all that it points to. It looks at every field, because a
// gate that lies could put as much as an answer has into the one that was forgotten.
func weigh(v any) int { return weightOf(reflect.ValueOf(v)) + beside }

// beside is about what an allocation and its place in a list take.
const beside = 100

func weightOf(v reflect.Value) int {
	if !v.IsValid() {
		return 0
	}
	return int(v.Type().Size()) + behind(v)
}

// behind estimates what a value points to.
func behind(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		n = v.Len()
	case reflect.Pointer, reflect.Interface:
		n = weightOf(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			n += weightOf(v.Index(i))
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			n += beside + weightOf(at.Key()) + weightOf(at.Value())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() { // which shares its time zone
			return 0
		}
		for i := range v.NumField() {
			n += behind(v.Field(i))
		}
	}
	return n
}
