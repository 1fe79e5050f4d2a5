package gates

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// Whatever part of a request is huge, its weight says so.
func TestEveryPartOfARequestWeighs(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	parts := 0
	var heavy func(name string, v reflect.Value, r *api.Request)
	heavy = func(name string, v reflect.Value, r *api.Request) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(huge)
			require.Greater(t, weigh(*r), 1<<20, name)
			v.SetString("")
			require.Less(t, weigh(*r), 10_000, name)
			parts++
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			heavy(name, v.Index(0), r)
			v.SetZero()
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			heavy(name, v.Elem(), r)
			v.SetZero()
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					heavy(name+"."+f.Name, v.Field(i), r)
				}
			}
		}
	}
	var r api.Request
	heavy("request", reflect.ValueOf(&r).Elem(), &r)
	require.Greater(t, parts, 40)
	for _, r := range []api.Request{{Labels: map[string]string{huge: "x"}}, {Labels: map[string]string{"x": huge}},
		{Params: op.Params{huge: int64(1)}}, {Params: op.Params{"x": []any{map[string]any{"y": huge}}}}} {
		require.Greater(t, weigh(r), 1<<20)
	}
	require.Less(t, weigh(api.Request{CreatedAt: time.Now(), AuthorizedAt: new(time.Time)}), 10_000)
}

// A gate that lies puts as much as it likes into one request after the other. No more is read or kept than the bound.
func TestSingleRequestsAreBounded(t *testing.T) {
	huge := strings.Repeat("x", maxWeight/10)
	asked := 0
	w := must.Get((&Set{config: Config{}}).watcher(Known{Name: "x", Address: client.UnixAddress("/s")}))(t)
	w.client = must.Get(client.New(client.Options{MaxAnswer: maxAnswer, Socket: serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked++
		b := must.Get(api.Encode(api.Request{ID: strings.TrimPrefix(r.URL.Path, "/v1/requests/"), State: op.StatePending, Op: huge}))(t)
		rw.Header().Set("Content-Type", api.ContentType)
		_, _ = rw.Write(b) // the test sees what arrived
	}))}))(t)
	ids := func(from, to int) map[string]bool {
		all := map[string]bool{}
		for i := from; i < to; i++ {
			all[fmt.Sprintf("j%d.1", i)] = true
		}
		return all
	}
	open, more, err := w.each(context.Background(), api.Status{}, nil, ids(1, 6))
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, open, 5)
	open, more, err = w.each(context.Background(), api.Status{}, open, ids(6, 30))
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, open, 9)
	require.Equal(t, 10, asked, "what does not fit any more is not asked for")

	full := make([]api.Request, MaxRequests-1)
	for i := range full {
		full[i].ID = fmt.Sprintf("j%d.1", i+100)
	}
	huge = ""
	open, more, err = w.each(context.Background(), api.Status{}, full, ids(1, 2))
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, open, MaxRequests)
	open, more, err = w.each(context.Background(), api.Status{}, full, ids(1, 3))
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, open, MaxRequests)
}
