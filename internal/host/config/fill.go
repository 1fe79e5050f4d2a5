package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"gated/internal/base/strictyaml"
)

// fill reads a map into the fields of a struct, as their tags say:
//
//	yaml:"KEY"       the key, or a section and its key; with ",needed" it must be there
//	is:"KIND ARGS"   what the value is, one of kinds; by default what the field's type says
//	or:"TEXT"        what it is if the file does not have it; else the field stays as it is
func fill(v strictyaml.Value, out reflect.Value) {
	for i := range out.NumField() {
		tag := out.Type().Field(i).Tag
		key, needed := strings.CutSuffix(tag.Get("yaml"), ",needed")
		if key == "" {
			continue
		}
		in := v
		if section, rest, ok := strings.Cut(key, "."); ok {
			in, key = v.Get(section), rest
		}
		e := in.Get(key)
		if needed {
			in.Need(key)
		}
		if or := tag.Get("or"); or != "" && !e.Present() {
			m, _ := strictyaml.Parse("", []byte("default: "+or)) // Parse cannot fail, because the tests read every default
			e = m.Get("default")
		}
		set(e, out.Field(i), tag.Get("is"))
	}
}

func set(v strictyaml.Value, out reflect.Value, is string) {
	switch kind := out.Kind(); {
	case kind == reflect.Struct && is == "":
		fill(v, out)
	case kind == reflect.Map && is == "" || kind == reflect.Map && !v.Present():
		out.Set(reflect.MakeMap(out.Type()))
		for k, e := range v.Each() {
			checkName(e, k)
			element := reflect.New(out.Type().Elem()).Elem()
			fill(e, element)
			out.SetMapIndex(reflect.ValueOf(k), element)
		}
	case !v.Present():
	case is != "":
		args := strings.Fields(is)
		out.Set(reflect.ValueOf(kinds[args[0]](v, args[1:])).Convert(out.Type()))
	case kind == reflect.Bool:
		out.SetBool(v.Bool())
	case kind == reflect.String:
		out.SetString(v.Text())
	case kind == reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		fill(v, out.Elem())
	}
}

// kinds has a reader for each kind of value that a field's type does not determine.
var kinds = map[string]func(v strictyaml.Value, args []string) any{
	"host":        plain(host),
	"path":        plain(path),
	"name":        plain(name),
	"user":        plain(account),
	"uids":        plain(uids),
	"range":       plain(uidRange),
	"hub":         plain(hubURL),
	"https":       plain(clusterURL),
	"fingerprint": plain(fingerprint),
	"program":     plain(program),
	"patterns":    plain(patterns),
	"variables":   plain(environment),
	"unseen":      plain(func(v strictyaml.Value) bool { return oneOf(v, "refuse", "allow") == "allow" }),
	"of":          func(v strictyaml.Value, words []string) any { return oneOf(v, words...) },
	"int":         whole,
	"MiB":         func(v strictyaml.Value, bounds []string) any { return whole(v, bounds).(int64) << 20 },
	"time": func(v strictyaml.Value, bounds []string) any {
		shortest, _ := time.ParseDuration(bounds[0])
		longest, _ := time.ParseDuration(bounds[1])
		return duration(v, 0, shortest, longest)
	},
}

func plain[T any](read func(strictyaml.Value) T) func(strictyaml.Value, []string) any {
	return func(v strictyaml.Value, _ []string) any { return read(v) }
}

func whole(v strictyaml.Value, bounds []string) any {
	lowest, _ := strconv.ParseInt(bounds[0], 10, 64)
	highest, _ := strconv.ParseInt(bounds[1], 10, 64)
	return v.Int(lowest, highest)
}
