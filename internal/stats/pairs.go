package stats

import "slices"

// CoverPairs chooses combinations of factors' levels such that every pair of levels
// of two factors occurs in at least one of them: most faults that depend on a
// combination of settings depend on two (Kuhn, Wallace, Gallo 2004), and a few
// dozen runs cover the pairs of thousands of combinations. Levels[i] is the
// number of levels of factor i, at least 1; a row has one level for each.
//
// The construction is greedy: each row begins with the first pair not yet
// covered, and gives every other factor, in order, the level that adds the most
// new pairs, the lowest of several. The result is always the same.
func CoverPairs(levels []int) [][]int {
	type pair struct{ i, a, j, b int } // level a of factor i with level b of factor j > i
	var missing []pair
	for i := range levels {
		for j := i + 1; j < len(levels); j++ {
			for a := range levels[i] {
				for b := range levels[j] {
					missing = append(missing, pair{i, a, j, b})
				}
			}
		}
	}
	has := func(row []int, p pair) bool { return row[p.i] == p.a && row[p.j] == p.b }
	var rows [][]int
	for len(missing) > 0 {
		row := slices.Repeat([]int{-1}, len(levels))
		first := missing[0]
		row[first.i], row[first.j] = first.a, first.b
		for i := range row {
			if row[i] >= 0 {
				continue
			}
			best, most := 0, -1
			for a := range levels[i] {
				row[i] = a
				n := 0
				for _, p := range missing {
					if (p.i == i || p.j == i) && has(row, p) {
						n++
					}
				}
				if n > most {
					best, most = a, n
				}
			}
			row[i] = best
		}
		missing = slices.DeleteFunc(missing, func(p pair) bool { return has(row, p) })
		rows = append(rows, row)
	}
	return rows
}

// CoverEach chooses rows of CoverPairs such that every level of every factor occurs in at least
// one of them, each with the most levels that no row before it has, the first of several:
// as many as the factor with the most levels has, or a few more.
func CoverEach(levels []int) (rows [][]int) {
	all := CoverPairs(levels)
	type setting struct{ factor, level int }
	seen := map[setting]bool{}
	unseen := func(row []int) (n int) {
		for i, level := range row {
			if !seen[setting{i, level}] {
				n++
			}
		}
		return n
	}
	for {
		best := slices.MaxFunc(all, func(a, b []int) int { return unseen(a) - unseen(b) })
		if unseen(best) == 0 {
			return rows
		}
		for i, level := range best {
			seen[setting{i, level}] = true
		}
		rows = append(rows, best)
	}
}
