// Package units reads and writes bytes, seconds and shares for people.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Binary units come before decimal ones: both end in B.
var byteUnits = []struct {
	name string
	size float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseBytes reads an amount of memory: 65536, 64MiB, 1.5GiB, 2GB.
func ParseBytes(s string) (int64, error) {
	number, size := s, 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			number, size = rest, u.size
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) || v*size >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not an amount of memory: want a number of bytes, or one with a unit such as 64MiB, 1.5GiB or 2GB", s)
	}
	return int64(v * size), nil
}

// FormatBytes formats an amount of memory in binary units, with enough digits
// to distinguish amounts.
func FormatBytes(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v := float64(n)
	unit := "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if v < 1<<10 {
			break
		}
		v, unit = v/(1<<10), u
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + " " + unit
}

// FormatSeconds formats a time with four digits and a suitable unit.
func FormatSeconds(t float64) string {
	unit, size := "us", 1e-6
	switch {
	case t >= 1 || t == 0:
		unit, size = "s", 1
	case t >= 1e-3:
		unit, size = "ms", 1e-3
	}
	return strconv.FormatFloat(t/size, 'g', 4, 64) + " " + unit
}

// FormatShare formats a part of a whole in percent.
func FormatShare(part, whole float64) string {
	s := fmt.Sprintf("%.1f%%", 100*part/whole)
	if s == "-0.0%" {
		return "0.0%" // a difference that should be 0
	}
	return s
}

// FormatWait formats the approximate duration of something.
func FormatWait(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()+0.5))
	case d < 10*time.Minute:
		return fmt.Sprintf("%.1f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// FormatFLOPs formats a number of operations, in three digits.
func FormatFLOPs(x float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T", "P", "E"} {
		if x < 999.5 {
			break
		}
		x, unit = x/1000, u
	}
	return fmt.Sprintf("%.3g %sFLOP", x, unit)
}

// About formats an expected duration.
func About(d time.Duration) string {
	if d < time.Second {
		return "less than 1 s"
	}
	return "about " + FormatWait(d)
}
