package partition

import (
	"math"
	"math/bits"
)

// prefix returns the sums of the first 0, 1, ..., n costs as integers in a unit
// that makes the total nearly 2^62. Sums of stages are then exact, and so are
// ties: a unit is a power of two, and costs are not rounded at all if they
// are whole numbers that add up to less than 2^53 (FLOPs, bytes), nor if
// they are any float64 within a factor 2^9 of the total. Smaller ones are rounded
// to 2^-62 of the total.
func prefix(cost []float64) []int64 {
	var total float64
	for _, c := range cost {
		total += c
	}
	_, exponent := math.Frexp(total) // total < 2^exponent
	p := make([]int64, len(cost)+1)
	for i, c := range cost {
		p[i+1] = p[i] + int64(math.Round(math.Ldexp(c, 62-exponent)))
	}
	return p
}

// anything says that every stage fits.
func anything(int, int) bool { return true }

// once returns fits with a memory: it calls fits at most once for each pair.
func once(fits func(from, to int) bool, layers int) func(from, to int) bool {
	const asked, yes = 1, 2
	answers := make([]uint8, (layers+1)*(layers+1))
	return func(from, to int) bool {
		a := &answers[from*(layers+1)+to]
		if *a == 0 {
			*a = asked
			if fits(from, to) {
				*a = asked | yes
			}
		}
		return *a&yes != 0
	}
}

// minMax is dynamic programming over suffixes:
//
//	best(k, i) = min over j > i with fits(i, j) of max(cost(i, j), best(k-1, j))
//
// is the bottleneck of layers i..n-1 in k stages. The scan over j ends when the
// first stage alone costs as much as the best so far, or the best is as low as
// the costliest layer allows: about n/k steps in the usual case.
func minMax(p []int64, stages int, fits func(from, to int) bool) (sizes []int, ok bool) {
	const none = math.MaxInt64
	n := len(p) - 1
	floor := make([]int64, n+1) // the costliest layer from i on
	for i := n - 1; i >= 0; i-- {
		floor[i] = max(floor[i+1], p[i+1]-p[i])
	}
	best := make([][]int64, stages+1)
	best[1] = make([]int64, n)
	for i := range n {
		best[1][i] = none
		if fits(i, n) {
			best[1][i] = p[n] - p[i]
		}
	}
	for k := 2; k <= stages; k++ {
		best[k] = make([]int64, n-k+1)
		for i := range best[k] {
			b := int64(none)
			for j := i + 1; j <= n-k+1 && p[j]-p[i] < b && b > floor[i]; j++ {
				if m := max(p[j]-p[i], best[k-1][j]); m < b && fits(i, j) {
					b = m
				}
			}
			best[k][i] = b
		}
	}
	bottleneck := best[stages][0]
	if bottleneck == none {
		return nil, false
	}
	// Of the partitions that keep to the bottleneck, the one with the smallest
	// first stage, then the smallest second, and so on.
	i := 0
	for k := stages; k > 1; k-- {
		j := i + 1
		for p[j]-p[i] > bottleneck || best[k-1][j] > bottleneck || !fits(i, j) {
			j++
		}
		sizes = append(sizes, j-i)
		i = j
	}
	return append(sizes, n-i), true
}

// minVariance minimises the sum of the squared costs of stages, and so their
// variance, since their mean is fixed. With
//
//	least(k, i) = min over j > i of cost(i, j)^2 + least(k-1, j)
//
// the first best j does not decrease with i (the square of an interval's sum
// satisfies the quadrangle inequality: Yao, Efficient dynamic programming using
// quadrangle inequalities, STOC 1980), so each k is solved by divide and conquer:
// O(K n log n) in all.
func minVariance(p []int64, stages int) []int {
	n := len(p) - 1
	at := func(i, j int, rest wide) wide { return square(uint64(p[j] - p[i])).plus(rest) }

	least := make([][]wide, stages+1)
	least[1] = make([]wide, n)
	for i := range n {
		least[1][i] = at(i, n, wide{})
	}
	for k := 2; k <= stages; k++ {
		row, rest := make([]wide, n-k+1), least[k-1]
		// Rows from..to-1, whose best j are among low..high.
		var solve func(from, to, low, high int)
		solve = func(from, to, low, high int) {
			if from >= to {
				return
			}
			i := (from + to) / 2
			first := max(low, i+1)
			value := at(i, first, rest[first])
			for j := first + 1; j <= high; j++ {
				if v := at(i, j, rest[j]); v.less(value) {
					first, value = j, v
				}
			}
			row[i] = value
			solve(from, i, low, first)
			solve(i+1, to, first, high)
		}
		solve(0, n-k+1, 1, n-k+1)
		least[k] = row
	}

	var sizes []int
	i := 0
	for k := stages; k > 1; k-- {
		j := i + 1
		for at(i, j, least[k-1][j]) != least[k][i] {
			j++
		}
		sizes = append(sizes, j-i)
		i = j
	}
	return append(sizes, n-i)
}

// wide is an unsigned 128-bit integer: the square of a total below 2^63 fits.
type wide struct{ high, low uint64 }

func square(x uint64) wide {
	high, low := bits.Mul64(x, x)
	return wide{high, low}
}

func (a wide) plus(b wide) wide {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, _ := bits.Add64(a.high, b.high, carry)
	return wide{high, low}
}

func (a wide) less(b wide) bool {
	return a.high < b.high || a.high == b.high && a.low < b.low
}
