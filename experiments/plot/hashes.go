package plot

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// HashPanel is a dot for each run of a network, by K and M. Runs that ended with
// the same weights have the same colour and shape.
type HashPanel struct {
	Title  string
	runs   []hashedRun
	hashes []string // as they came
}

type hashedRun struct {
	k, m, hash int // of hashes
}

func (p *HashPanel) Add(k, m int, sha256 string) {
	at := slices.Index(p.hashes, sha256)
	if at < 0 {
		at = len(p.hashes)
		p.hashes = append(p.hashes, sha256)
	}
	p.runs = append(p.runs, hashedRun{k, m, at})
}

func (p *HashPanel) seriesNames() (names []string) {
	for i := range p.hashes {
		names = append(names, hashName(i))
	}
	return names
}

func hashName(i int) string { return fmt.Sprintf("SHA-256 no. %d of a network", i+1) }

func (p *HashPanel) plot(inks map[string]color.Color) (*plot.Plot, []legendEntry, error) {
	title := fmt.Sprintf("%s: %d runs, %d SHA-256", p.Title, len(p.runs), len(p.hashes))
	out := newPlot(title, "partitions K", "micro-batches M")
	out.Add(levelGrid())
	var keys []legendEntry
	for i, dots := range p.places() {
		scatter, err := plotter.NewScatter(dots)
		if err != nil {
			return nil, nil, err
		}
		scatter.GlyphStyle = draw.GlyphStyle{Color: inks[hashName(i)], Radius: vg.Points(3.5), Shape: shapes[i%len(shapes)]}
		out.Add(scatter)
		keys = append(keys, legendEntry{hashName(i), scatter})
	}
	ks, ms := p.axes()
	nominal(out, texts(ks))
	var ticks plot.ConstantTicks
	for i, m := range texts(ms) {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: m})
	}
	out.Y.Tick.Marker = ticks
	out.Y.Min, out.Y.Max = -0.5, math.Max(float64(len(ms))-0.3, 0.7)
	return out, keys, nil
}

// axes are the values of K and M that there are.
func (p *HashPanel) axes() (ks, ms []int) {
	for _, r := range p.runs {
		ks, ms = append(ks, r.k), append(ms, r.m)
	}
	return distinct(ks), distinct(ms)
}

// places are where the runs of each hash stand: those of one K and M beside one
// another.
func (p *HashPanel) places() []plotter.XYs {
	const across, apart = 4, 0.2
	ks, ms := p.axes()
	all, there := map[[2]int]int{}, map[[2]int]int{}
	for _, r := range p.runs {
		all[[2]int{r.k, r.m}]++
	}
	at := make([]plotter.XYs, len(p.hashes))
	for _, r := range p.runs {
		place := [2]int{r.k, r.m}
		n := there[place]
		there[place]++
		at[r.hash] = append(at[r.hash], plotter.XY{
			X: float64(slices.Index(ks, r.k)) + apart*(float64(n%across)-float64(min(across, all[place])-1)/2),
			Y: float64(slices.Index(ms, r.m)) + apart*float64(n/across),
		})
	}
	return at
}

func distinct(values []int) []int {
	slices.Sort(values)
	return slices.Compact(values)
}

func texts(values []int) (all []string) {
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return all
}
