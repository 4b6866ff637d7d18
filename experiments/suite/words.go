package suite

import (
	"fmt"
	"math"
	"strings"

	"gpipebench/gpipe/accelerator"
)

// JoinInts is a partition in few letters.
func JoinInts(sizes []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ","), "[]")
}

func YesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// AcceleratorText is an accelerator's figures, without what only readers need.
func AcceleratorText(name string) string {
	a, err := accelerator.Named(name)
	if err != nil {
		panic(err) // specs are checked
	}
	a.Description, a.Sources = "", nil
	return fmt.Sprintf("%+v", *a)
}

// Percent is a share, or "-" if there is none.
func Percent(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

// Signed is a relative difference in whole percent; what rounds to none has no
// sign of its own.
func Signed(x float64) string { return fmt.Sprintf("%+.0f%%", math.Round(100*x)+0) }

func EarlyOrLate(late bool) string {
	if late {
		return "late"
	}
	return "early (one micro-batch ahead)"
}

func JoinWith(xs []int, by string) string {
	var s []string
	for _, x := range xs {
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, by)
}

// Fold breaks a text into lines of at most so many characters, or one word.
func Fold(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
