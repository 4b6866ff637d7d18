package plot

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// OneScale gives panels that are compared with each other the same y axis.
func OneScale(panels []Axes) (scaled []Axes) {
	for _, p := range panels {
		scaled = append(scaled, onScale{p, panels})
	}
	return scaled
}

// onScale is axes whose y axis has the values of several.
type onScale struct {
	Axes
	all []Axes
}

func (s onScale) groupNames() []string {
	if of, ok := s.Axes.(interface{ groupNames() []string }); ok {
		return of.groupNames()
	}
	return nil
}

func (s onScale) plot(inks map[string]color.Color, width vg.Length) (*plot.Plot, []legendEntry, error) {
	out, keys, err := s.Axes.plot(inks, width)
	if err != nil {
		return nil, nil, err
	}
	for _, other := range s.all {
		p, _, err := other.plot(inks, width)
		if err != nil {
			return nil, nil, err
		}
		out.Y.Min, out.Y.Max = min(out.Y.Min, p.Y.Min), max(out.Y.Max, p.Y.Max)
	}
	return out, keys, nil
}
