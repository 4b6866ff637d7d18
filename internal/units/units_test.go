package units

import (
	"testing"

	"gpipebench/internal/testkit"
)

func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "64MiB": 64 << 20, "1.5GiB": 3 << 29, "2GB": 2e9, "3kB": 3000, "7B": 7,
	} {
		testkit.Equal(t, testkit.Must(ParseBytes(text))(t), want, "ParseBytes(%q)", text)
	}
	for _, text := range []string{"", "MiB", "-1", "1e30", "12 apples", "NaN"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 3 << 29: "1.50 GiB"} {
		testkit.Equal(t, FormatBytes(n), want, "FormatBytes(%d)", n)
	}
	for s, want := range map[float64]string{0: "0 s", 1.5: "1.5 s", 0.0125: "12.5 ms", 2e-6: "2 us"} {
		testkit.Equal(t, FormatSeconds(s), want, "FormatSeconds(%v)", s)
	}
	for x, want := range map[float64]string{0: "0 FLOP", 999: "999 FLOP", 999.6: "1 kFLOP", 2.5e12: "2.5 TFLOP", 1e16: "10 PFLOP", 3e21: "3e+03 EFLOP"} {
		testkit.Equal(t, FormatFLOPs(x), want, "FormatFLOPs(%v)", x)
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"0", "64MiB", "1.5GiB", "2GB", "-1", "1e300TB", "0x1p4KiB", "inf", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseBytes(s); err == nil && n < 0 {
			t.Errorf("%q is %d", s, n)
		}
	})
}
