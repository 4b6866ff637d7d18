package lab

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/units"
	"gpipebench/internal/yamldoc"
)

// Verbatim is a number as a paper prints it. Every spec may lack it: "" is no number, from which NaN
// follows, and "-" in tables.
type Verbatim string

var verbatimForm = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)

func (v *Verbatim) UnmarshalYAML(n *yaml.Node) error {
	if *v = Verbatim(n.Value); !verbatimForm.MatchString(n.Value) || !(v.Number() > 0) {
		return yamldoc.WantError("a number above 0 in digits, such as 1.13")
	}
	return nil
}

// IsZero reports whether there is no number.
func (v Verbatim) IsZero() bool { return v == "" }

// Number is the number, in the unit that it is printed with if it has one; NaN if there is none.
func (v Verbatim) Number() float64 {
	if x, _, ok := units.ReadFigure(string(v)); ok {
		return x
	}
	return math.NaN()
}

// Printed is the number as a table has it, with its unit; Absent if there is none.
func (v Verbatim) Printed(unit string) Value {
	if v == "" {
		return Absent
	}
	return Value{Text: string(v) + unit, Numbers: []float64{v.Number()}}
}

// Off is how far a figure of ours is from the number, in percent of it; Absent if there is none.
func (v Verbatim) Off(ours float64) Value { return Signed(ours/v.Number() - 1) }

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
	Torchgpipe Verbatim `yaml:"torchgpipe"`
}

type PaperCells []PaperCell

// Of returns what is printed for a cell.
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
	if v := paper.Of(g.Base).Value; v != "" && v.Number() != 1 {
		return At(errors.New("want the cell of k and m whose value in the paper is 1"), "base")
	}
	return nil
}

// ExpectedOnly is a profile of an experiment that has one size.
type ExpectedOnly struct {
	Expected Span `yaml:"expected" want:"shown"`
}
