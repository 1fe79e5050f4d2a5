package authz

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func TestDearmor(t *testing.T) {
	t.Parallel()
	blob := []byte(strings.Repeat("0123456789", 20))
	for _, width := range []int{1, 64, 70, 76} {
		got := must.Get(dearmor(mint.Armor(blob, width)))(t, width)
		require.Equal(t, blob, got)
	}
	got := must.Get(dearmor(strings.TrimSuffix(mint.Armor(blob, 70), "\n")))(t, "the last newline may be missing")
	require.Equal(t, blob, got)
}

func TestDearmorRefusals(t *testing.T) { // S12
	t.Parallel()
	good := mint.Armor([]byte(strings.Repeat("0123456789", 20)), 70)
	body := strings.TrimSuffix(strings.TrimPrefix(good, armorBegin), armorEnd+"\n")
	for name, bad := range map[string]string{
		"empty":               "",
		"text before":         "signed by me\n" + good,
		"blank line before":   "\n" + good,
		"space before":        " " + good,
		"BOM before":          "\ufeff" + good,
		"text after":          good + "thanks\n",
		"blank line after":    good + "\n",
		"space after":         good + " ",
		"two signatures":      good + good,
		"CRLF":                strings.ReplaceAll(good, "\n", "\r\n"),
		"CR at the end":       strings.TrimSuffix(good, "\n") + "\r",
		"PEM header":          strings.Replace(good, armorBegin, armorBegin+"Comment: x\n\n", 1),
		"blank line inside":   strings.Replace(good, armorBegin, armorBegin+"\n", 1),
		"blank line at end":   strings.Replace(good, armorEnd, "\n"+armorEnd, 1),
		"other PEM type":      strings.ReplaceAll(good, "SSH SIGNATURE", "SSH2 SIGNATURE"),
		"no end":              strings.TrimSuffix(good, armorEnd+"\n"),
		"no begin":            strings.TrimPrefix(good, armorBegin),
		"markers alone":       armorBegin + armorEnd + "\n",
		"markers touch":       strings.TrimSuffix(armorBegin, "\n") + armorEnd + "\n",
		"end in a line":       strings.Replace(good, "\n"+armorEnd, armorEnd, 1),
		"long lines":          mint.Armor([]byte(strings.Repeat("0123456789", 20)), 77),
		"ragged lines":        armorBegin + body[:10] + "\n" + body[10:] + armorEnd + "\n",
		"short line inside":   armorBegin + body[:71] + body[71:80] + "\n" + body[80:] + armorEnd + "\n",
		"URL alphabet":        armorBegin + "__-_\n" + armorEnd + "\n",
		"padding inside":      armorBegin + "AA==\nAAAA\n" + armorEnd + "\n",
		"no padding":          armorBegin + "AA\n" + armorEnd + "\n",
		"stray bits":          armorBegin + "AB==\n" + armorEnd + "\n",
		"space inside":        armorBegin + "AA AA\n" + armorEnd + "\n",
		"marker in the blob":  armorBegin + body + armorEnd + "\n" + body + armorEnd + "\n",
		"lower-case markers":  strings.ToLower(armorBegin) + body + armorEnd,
		"trailing tab, begin": strings.Replace(good, armorBegin, strings.TrimSuffix(armorBegin, "\n")+"\t\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, good, bad)
			must.Fail(dearmor(bad))(t, refusal.Malformed)
		})
	}
}
