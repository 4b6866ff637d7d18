package lab

import (
	"fmt"
	"strings"
)

func YesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// JoinWith is a list in one text.
func JoinWith[T any](xs []T, by string) string {
	texts := make([]string, len(xs))
	for i, x := range xs {
		texts[i] = fmt.Sprint(x)
	}
	return strings.Join(texts, by)
}

// DividedOrWhole says how replicas update weights: each a part, or all of them.
func DividedOrWhole(divided bool) string {
	if divided {
		return "divided"
	}
	return "whole"
}
