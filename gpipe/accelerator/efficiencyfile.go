package accelerator

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/nn/graph"
)

// maxShare is above the largest share of a peak that was published: 2.4, of Winograd
// convolutions.
const maxShare = 10

// efficiencies reads a list, each of a kind and a dtype of its own.
func (r accelReader) efficiencies(n *yaml.Node, a *Accelerator) error {
	if n.Kind != yaml.SequenceNode {
		return r.at(n, "efficiencies: want a list, such as - {of: dense, share: 0.85, source: ...}")
	}
	for _, item := range n.Content {
		e, err := r.efficiency(item)
		if err != nil {
			return err
		}
		for _, other := range a.Efficiencies {
			if other.Of == e.Of && (other.DType == "" || e.DType == "" || other.DType == e.DType) {
				return r.at(item, "a second efficiency of %s: want one for each kind and dtype", e.Of)
			}
		}
		a.Efficiencies = append(a.Efficiencies, e)
	}
	return nil
}

// efficiency reads one, with a share for all sizes or a list of sizes.
func (r accelReader) efficiency(n *yaml.Node) (e Efficiency, err error) {
	var all Point
	fields := append(r.point(&all), accelField{"of", true, r.oneOf(&e.Of, efficiencyKinds)},
		accelField{"dtype", false, r.oneOf(&e.DType, []string{graph.BF16.String(), graph.F32.String()})},
		accelField{"sizes", false, func(n *yaml.Node) error { return r.points(n, &e.Points) }},
		accelField{"source", true, r.text(&e.Source)})
	if err := r.mapping(n, "efficiencies.", fields); err != nil {
		return e, err
	}
	switch {
	case (all.Share > 0) == (len(e.Points) > 0):
		return e, r.at(n, "an efficiency of %s: want either share or sizes", e.Of)
	case (e.Of == Memory || e.Of == Link) && (e.DType != "" || len(e.Points) > 0):
		return e, r.at(n, "an efficiency of %s: want a share for all dtypes and sizes", e.Of)
	case all.Share > 0:
		e.Points = []Point{all}
	}
	for i := range e.Points {
		p := &e.Points[i]
		if p.High == 0 {
			p.Low, p.High = p.Share, p.Share
		}
		if p.Low > p.Share || p.High < p.Share {
			return e, r.at(n, "an efficiency of %s: %g is outside its band, %g to %g", e.Of, p.Share, p.Low, p.High)
		}
	}
	return e, nil
}

// points reads shares by ascending sizes.
func (r accelReader) points(n *yaml.Node, to *[]Point) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return r.at(n, "sizes: want a list, such as - {size: 128, share: 0.8, band: [0.7, 0.9]}")
	}
	for _, item := range n.Content {
		var p Point
		size := accelField{"size", true, func(n *yaml.Node) (err error) {
			p.Size, err = r.whole(n, "rows, columns or terms", 1, 1<<30)
			return err
		}}
		if err := r.mapping(item, "sizes.", append(r.point(&p), size)); err != nil {
			return err
		}
		if p.Share == 0 {
			return r.at(item, "no share: it cannot be left out")
		}
		if len(*to) > 0 && (*to)[len(*to)-1].Size >= p.Size {
			return r.at(item, "size %d after %d: want ascending sizes", p.Size, (*to)[len(*to)-1].Size)
		}
		*to = append(*to, p)
	}
	return nil
}

// point reads a share and its band.
func (r accelReader) point(p *Point) []accelField {
	share := func(n *yaml.Node) (float64, error) { return r.number(n, "a share of the peak", 1e-6, maxShare) }
	return []accelField{
		{"share", false, func(n *yaml.Node) (err error) {
			p.Share, err = share(n)
			return err
		}},
		{"band", false, func(n *yaml.Node) (err error) {
			if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
				return r.at(n, "band: want the lowest and the highest share, such as [0.7, 0.9]")
			}
			if p.Low, err = share(n.Content[0]); err != nil {
				return err
			}
			p.High, err = share(n.Content[1])
			return err
		}},
	}
}

// text is an efficiency in the form that efficiency reads, in one line.
func (e Efficiency) text() string {
	of := "of: " + e.Of
	if e.DType != "" {
		of += ", dtype: " + e.DType
	}
	var points []string
	for _, p := range e.Points {
		share := fmt.Sprintf("share: %.6g, band: [%.6g, %.6g]", p.Share, p.Low, p.High)
		if p.Size == 0 {
			return fmt.Sprintf("{%s, %s, source: %q}", of, share, e.Source)
		}
		points = append(points, fmt.Sprintf("{size: %d, %s}", p.Size, share))
	}
	return fmt.Sprintf("{%s, sizes: [%s], source: %q}", of, strings.Join(points, ", "), e.Source)
}

func (r accelReader) oneOf(to *string, words []string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
			return r.at(n, "%q: want %s", n.Value, strings.Join(words, ", "))
		}
		*to = n.Value
		return nil
	}
}
