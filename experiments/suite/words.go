package suite

import (
	"fmt"
	"strings"

	"gpipebench/gpipe/accelerator"
)

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

func EarlyOrLate(late bool) string {
	if late {
		return "late"
	}
	return "early (one micro-batch ahead)"
}

// JoinWith is whole numbers in one text.
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
