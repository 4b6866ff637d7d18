package lab

func YesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func EarlyOrLate(late bool) string {
	if late {
		return "late"
	}
	return "early (one micro-batch ahead)"
}

// JoinWith is whole numbers in one text.
func JoinWith(xs []int, by string) string { return Ints(by, xs).Text }
