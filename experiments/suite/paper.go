package suite

import (
	"errors"
	"fmt"
	"slices"
)

// Cell is one of the table's.
type Cell struct {
	K int `yaml:"k" want:"1..1024,key"`
	M int `yaml:"m" want:"1..65536,key"`
}

type PaperCell struct {
	Cell  `yaml:",inline"`
	Value Verbatim `yaml:"value"`
}

// CheckGrid reports a cell of a table without a value in the paper, a base that
// is not one of the cells, and one whose value, to which the others are relative,
// is not 1.
func CheckGrid(cells []Cell, base Cell, paper func(Cell) float64) *Problem {
	for _, c := range cells {
		if paper(c) == 0 {
			return At(fmt.Errorf("no value for K = %d, M = %d: want one for every cell of k and m", c.K, c.M), "paper")
		}
	}
	if !slices.Contains(cells, base) || paper(base) != 1 {
		return At(errors.New("want the cell of k and m whose value in the paper is 1"), "base")
	}
	return nil
}

// ExpectedOnly is a profile of an experiment that has one size.
type ExpectedOnly struct {
	Expected Span `yaml:"expected"`
}
