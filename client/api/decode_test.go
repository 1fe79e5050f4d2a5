package api

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestDecodeBodyIsStrict(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `7`, `{`, `{"op":"guest.start","target":"guest/a"`,
		`{"op":"guest.start","target":"guest/a"} x`,
		`{"op":"guest.start","target":"guest/a"}{}`,
		`{"op":"guest.start","op":"guest.stop","target":"guest/a"}`,
		`{"Op":"guest.start","target":"guest/a"}`,
		`{"op":"guest.start","target":"guest/a","class":"benign"}`,
		`{"op":"guest.start","target":"guest/a","params":null}`,
		`{"op":"guest.start","target":"guest/a","params":{"a":null}}`,
		`{"op":"guest.start","target":"guest/a","params":{"a":1,"a":2}}`,
		`{"op":"guest.start","target":"guest/a","params":{"a":1.5}}`,
		`{"op":"guest.start","target":"guest/a","params":{"a":9007199254740992}}`,
		`{"op":"guest.start","target":"guest/a","params":[]}`,
		`{"op":7,"target":"guest/a"}`,
		"{\"op\":\"\xff\",\"target\":\"guest/a\"}",
		`{"op":"\ud800","target":"guest/a"}`,
		"\xef\xbb\xbf" + `{"op":"guest.start","target":"guest/a"}`,
		strings.Repeat("[", 100_000),
		strings.Repeat(`{"a":`, 100_000),
	} {
		var s Submit
		err := DecodeBody([]byte(body), &s)
		require.ErrorIs(t, err, refusal.Malformed, "%.60q", body)
		require.NotContains(t, err.Error(), "api.", "names a Go type: %.60q", body)
	}
	var s Submit
	require.NoError(t, DecodeBody([]byte(" {\"op\":\"guest.start\",\n\"target\":\"guest/a\"} \n"), &s))
}

func TestDecodeBodySaysWhere(t *testing.T) {
	var s Submit
	err := DecodeBody([]byte(`{"steps":[{"op":"a","target":"guest/b","scratch":true}]}`), &s)
	require.ErrorContains(t, err, "/steps/0/scratch")
	require.ErrorContains(t, DecodeBody([]byte(`{"steps":[{"op":"a","target":7}]}`), &s), "/steps/0/target")
	require.ErrorContains(t, DecodeBody([]byte(`{"reason":null}`), &s), "/reason")
}

func TestDecodeAnswerLetsANewerDaemonSayMore(t *testing.T) {
	var h Head
	require.NoError(t, DecodeAnswer([]byte(`{"seq":1,"hash":"00","new":null}`), &h))
	require.Error(t, DecodeAnswer([]byte(`{"seq":1,"seq":2,"hash":"00"}`), &h))
	require.Error(t, DecodeAnswer([]byte(`{"seq":1,"hash":"00"}x`), &h))
}

func TestEncodeKeepsOddTextData(t *testing.T) {
	odd := "\xff\"'`$(id)\x00\x1b[31m\u202e\u2028</script>\r\n"
	b := must.Get(Encode(map[string]string{odd: odd}))(t)
	require.NotContains(t, string(b), "\n")
	var m map[string]string
	require.NoError(t, DecodeAnswer(b, &m))
	want := strings.ToValidUTF8(odd, "\ufffd")
	require.Equal(t, map[string]string{want: want}, m)
}

func TestEnvelopeLimits(t *testing.T) {
	open := func(payload, signatures int) error {
		got, err := EnvelopeOf(make([]byte, payload), make([]string, signatures)...).Open()
		if err == nil {
			require.Len(t, got, payload)
		}
		return err
	}
	require.NoError(t, open(1, 1))
	require.NoError(t, open(op.MaxPayload-1, 1))
	require.NoError(t, open(op.MaxPayload, op.MaxSignatures))
	for n := 1; n < 8; n++ {
		require.ErrorIs(t, open(op.MaxPayload+n, 1), refusal.Oversized)
	}
	require.ErrorIs(t, open(1, op.MaxSignatures+1), refusal.Oversized)
	require.ErrorIs(t, open(1, 0), refusal.Malformed)
	require.ErrorIs(t, open(0, 1), refusal.Malformed)
}

func TestEnvelopeHasOneSpelling(t *testing.T) {
	good := base64.StdEncoding.EncodeToString([]byte(">>>>?")) // has + / and =
	must.Get(Envelope{Payload: good, Signatures: []string{"s"}}.Open())(t)
	for _, bad := range []string{
		strings.TrimRight(good, "="), good + "=", good + "\n", good[:4] + "\n" + good[4:], good[:4] + "\r\n" + good[4:],
		" " + good, strings.NewReplacer("+", "-", "/", "_").Replace(base64.StdEncoding.EncodeToString([]byte{0xfb, 0xff})), "QR==",
	} {
		_, err := Envelope{Payload: bad, Signatures: []string{"s"}}.Open()
		require.ErrorIs(t, err, refusal.Malformed, "%q", bad)
		require.Equal(t, refusal.StageDecode, refusal.As(err).Stage)
	}
}
