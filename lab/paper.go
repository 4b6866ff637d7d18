package lab

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

// Grid is a table's cells, and the one to which the others are relative.
type Grid struct {
	K    []int `yaml:"k" want:"1..1024"`
	M    []int `yaml:"m" want:"1..65536"`
	Base Cell  `yaml:"base"`
}

// Cells are in the paper's order.
func (g *Grid) Cells() (cells []Cell) {
	for _, m := range g.M {
		for _, k := range g.K {
			cells = append(cells, Cell{k, m})
		}
	}
	return cells
}

// PaperCell is what the paper prints for a cell, and torchgpipe, where it does.
type PaperCell struct {
	Cell       `yaml:",inline"`
	Value      Verbatim `yaml:"value"`
	Torchgpipe Verbatim `yaml:"torchgpipe" want:"optional"`
}

type PaperCells []PaperCell

// Of returns what is printed for a cell; its value is 0 if nothing is.
func (cells PaperCells) Of(c Cell) PaperCell {
	for _, p := range cells {
		if p.Cell == c {
			return p
		}
	}
	return PaperCell{}
}

// CheckPaper reports a base that is not one of the cells, and one whose value in the paper is not 1.
// The paper may have no value of any cell.
func (g *Grid) CheckPaper(paper PaperCells) *Problem {
	if !slices.Contains(g.Cells(), g.Base) {
		return At(fmt.Errorf("no cell has K = %d, M = %d: want a cell of k and m", g.Base.K, g.Base.M), "base")
	}
	if v := paper.Of(g.Base).Value; v.Text != "" && v.Value != 1 {
		return At(errors.New("want the cell of k and m whose value in the paper is 1"), "base")
	}
	return nil
}

// ExpectedOnly is a profile of an experiment that has one size.
type ExpectedOnly struct {
	Expected Span `yaml:"expected" want:"shown"`
}
