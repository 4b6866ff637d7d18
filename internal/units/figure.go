package units

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var figureForm = regexp.MustCompile(`^([+-]?[0-9]+(?:,[0-9]{3})*(?:\.([0-9]+))?) ?([A-Za-z]*)`)

// figureUnits are the units in which papers print figures.
var figureUnits = map[string]float64{
	"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "MB": 1e6, "GB": 1e9,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ReadFigure reads a figure as a paper prints it, and returns half a unit of
// its last digit as well.
func ReadFigure(text string) (value, half float64, ok bool) {
	m := figureForm.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
	unit, known := figureUnits[m[3]]
	if !known {
		unit = 1
	}
	return value * unit, unit * math.Pow(10, -float64(len(m[2]))) / 2, err == nil
}

// FormatCommas formats a number in groups of three digits.
func FormatCommas(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ParseCount reads a number above 0 of things that there are many of: 20000, 300M, 1.5B, 2T.
func ParseCount(s string) (float64, error) {
	number, unit := s, 1.0
	for name, of := range map[string]float64{"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12} {
		if rest, ok := strings.CutSuffix(s, name); ok {
			number, unit = rest, of
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if v *= unit; err != nil || !(v > 0) || v > math.MaxInt64 {
		return 0, fmt.Errorf("want a number above 0, or one with k, M, B or T, such as 300B or 2T")
	}
	return v, nil
}

// FormatCount formats a number of 0 or more in millions, billions or trillions, in three digits.
func FormatCount(n int64) string {
	switch v := float64(n); {
	case v >= 1e12:
		return fmt.Sprintf("%.3gT", v/1e12)
	case v >= 1e9:
		return fmt.Sprintf("%.3gB", v/1e9)
	case v >= 1e8:
		return fmt.Sprintf("%.0fM", v/1e6)
	default:
		return fmt.Sprintf("%.3gM", v/1e6)
	}
}

// Counted is a number of things, whose name ends in s, or after ch in es, but for one.
func Counted(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ch"):
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
