package units

import (
	"testing"

	"gpipebench/internal/testkit"
)

func TestReadFigure(t *testing.T) {
	for text, want := range map[string][2]float64{
		"81,505": {81505, 0.5}, "1.8B": {1.8e9, 0.05e9}, "3.15 GiB": {3.15 * (1 << 30), 0.005 * (1 << 30)}, "63.4%": {63.4, 0.05}, "-3 points": {-3, 0.5},
	} {
		near := func(a, b float64) bool { return a-b < 1e-9*max(1, b, -b) && b-a < 1e-9*max(1, b, -b) }
		if value, half, ok := ReadFigure(text); !ok || !near(value, want[0]) || !near(half, want[1]) {
			t.Errorf("%s: %v ± %v, %v; want %v", text, value, half, ok, want)
		}
	}
	if _, _, ok := ReadFigure("out of memory"); ok {
		t.Error("a text is a figure")
	}
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[int64][2]string{
		7: {"7", "7e-06M"}, 81505540: {"81,505,540", "81.5M"}, 282_200_000: {"282,200,000", "282M"}, 83_876_910_336: {"83,876,910,336", "83.9B"}, 15e12: {"15,000,000,000,000", "15T"},
	} {
		if commas, count := FormatCommas(n), FormatCount(n); commas != want[0] || count != want[1] {
			t.Errorf("%d: %s, %s; want %s", n, commas, count, want)
		}
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]float64{"7": 7, "20k": 2e4, "1.5M": 1.5e6, "300B": 3e11, "2T": 2e12} {
		testkit.Equal(t, testkit.Must(ParseCount(text))(t), want, "%s", text)
	}
	for _, text := range []string{"", "T", "0", "-2T", "2P", "2TT", "NaN", "inf", "1e30"} {
		if got, err := ParseCount(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
